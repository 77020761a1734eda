//! This site's replica, read through its application.

use cheops_glue::Own;
use cheops_replica::{Digest, LocalId, Record};
use http::HeaderMap;
use ring::digest::{SHA256, digest};

use super::{Executor, ids::ToShown, render::AppRequest};
use crate::{
    caller::OnBehalf,
    ids::Finder,
    waiting::{AppAnswer, CallerHeaders},
};

/// A replica in the words of all sites.
pub(crate) struct Reading {
    /// What makes another replica like this one.
    pub(crate) portable: Vec<u8>,
    /// What is compared.
    pub(crate) comparable: Vec<u8>,
    /// What it has instead of its part of what is divided; mostly nothing.
    pub(crate) odd: String,
}

impl Reading {
    pub(crate) fn digest(&self) -> Digest {
        Digest(digest(&SHA256, &self.comparable).as_ref().to_vec())
    }
}

/// With whose rights the application is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access<'a> {
    /// Those of a caller that waits.
    Caller(&'a CallerHeaders),
    OnBehalf(&'a OnBehalf),
}

/// What a read for the engine gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Replica {
    /// State and digest.
    Here(Vec<u8>, Digest),
    /// The application says that it has no such resource.
    Missing,
    Unknown,
}

impl Executor {
    /// This site's replica for the engine. In nobody's name a 404 may only mean that the application does not
    /// show the resource to strangers; to forget its local id then would lose it.
    pub(crate) async fn read(&self, set: &Record, local: &LocalId, on_behalf: &OnBehalf) -> Replica {
        let _place = self.slots.acquire().await;
        let Some(answer) = self.get(set, local, Access::OnBehalf(on_behalf)).await else {
            return Replica::Unknown;
        };
        match answer.status {
            200 => match self.reading(set, local, &answer.body) {
                Some(reading) => {
                    if !reading.odd.is_empty() {
                        // What others have says nothing about this site's part.
                        self.set_part_right(set, local, on_behalf, &reading, &answer.body)
                            .await;
                    }
                    let digest = reading.digest();
                    Replica::Here(reading.portable, digest)
                }
                None => Replica::Unknown,
            },
            410 => Replica::Missing,
            404 if on_behalf.is_somebody() => Replica::Missing,
            _ => Replica::Unknown,
        }
    }

    /// The application's answer to a read of the replica.
    pub(crate) async fn get(&self, set: &Record, local: &LocalId, access: Access<'_>) -> Option<AppAnswer> {
        let key = self.local_key(set, local.as_str())?;
        let profile = self.core.surroundings.profile();
        let path = profile.kind(&set.service, &set.kind).item_path(&key);
        let mut order = AppRequest::get(path);
        match access {
            Access::Caller(caller) => order.headers.extend(self.credential_of(set, caller)),
            Access::OnBehalf(on_behalf) => {
                if let Err(why) = self.speak(&mut order.headers, set, on_behalf).await {
                    // The application would say so: it is nobody's.
                    return Some(AppAnswer {
                        status: 401,
                        headers: HeaderMap::new(),
                        body: why.into(),
                    });
                }
            }
        }
        self.call(&set.service, order, "").await.ok()
    }

    /// A body of the application with the ids of all sites; none where it is no JSON.
    pub(crate) fn reading(&self, set: &Record, local: &LocalId, body: &[u8]) -> Option<Reading> {
        let mapped = self.shown(set, local, body)?;
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let (whole, odd) = self.as_whole(set, &kind, &mapped);
        Some(Reading {
            portable: kind.portable(&whole).ok()?,
            comparable: kind.comparable(&whole).ok()?,
            odd,
        })
    }

    /// The same body in the words of all sites, with what only this site has.
    pub(super) fn shown(&self, set: &Record, local: &LocalId, body: &[u8]) -> Option<Vec<u8>> {
        let key = self.local_key(set, local.as_str())?;
        let profile = self.core.surroundings.profile();
        let path = profile.kind(&set.service, &set.kind).item_path(&key);
        let read = self.core.store.read().ok()?;
        let ids = ToShown(Finder::new(&read, &profile));
        let mapped = match profile.address(&set.service, &path) {
            Some(address) => address.map_body(body, Own::Keep, &ids).ok()?.into_owned(),
            None => body.to_vec(),
        };
        Some(mapped)
    }
}
