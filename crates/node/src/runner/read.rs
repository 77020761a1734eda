//! This site's replica, read through its application.

use cheops_glue::Own;
use cheops_replica::{Digest, LocalId, Record, Secret};
use ring::digest::{SHA256, digest};

use super::{Hands, ids::ToShown, render::Order};
use crate::{ids::Finder, waiting::AppAnswer};

/// A replica in the words of all sites.
pub(super) struct Reading {
    /// What makes another replica like this one.
    pub(super) portable: Vec<u8>,
    /// What is compared.
    pub(super) comparable: Vec<u8>,
}

impl Reading {
    pub(super) fn digest(&self) -> Digest {
        Digest(digest(&SHA256, &self.comparable).as_ref().to_vec())
    }
}

impl Hands {
    /// State and digest for the engine; none when the replica cannot be read.
    pub(super) async fn read(
        &self,
        set: &Record,
        local: &LocalId,
        credential: Option<&Secret>,
    ) -> Option<(Vec<u8>, Digest)> {
        let _place = self.places.acquire().await;
        let answer = self.get(set, local, credential).await?;
        if answer.status != 200 {
            return None;
        }
        let reading = self.reading(set, local, &answer.body)?;
        let digest = reading.digest();
        Some((reading.portable, digest))
    }

    /// The application's answer to a read of the replica.
    pub(super) async fn get(
        &self,
        set: &Record,
        local: &LocalId,
        credential: Option<&Secret>,
    ) -> Option<AppAnswer> {
        let key = self.local_key(set, local.as_str())?;
        let profile = self.core.surroundings.profile();
        let path = profile.kind(&set.service, &set.kind).item_path(&key);
        let mut order = Order::get(path);
        self.add_credential(&mut order.headers, credential);
        self.call(&set.service, order, "").await.ok()
    }

    /// A body of the application with the ids of all sites; none where it is no JSON.
    pub(super) fn reading(&self, set: &Record, local: &LocalId, body: &[u8]) -> Option<Reading> {
        let key = self.local_key(set, local.as_str())?;
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let path = kind.item_path(&key);
        let read = self.core.store.read().ok()?;
        let ids = ToShown(Finder::new(&read, &profile));
        let address = profile.address(&set.service, &path);
        let mapped = match &address {
            Some(address) => address.map_body(body, Own::Keep, &ids).ok()?,
            None => body.into(),
        };
        Some(Reading {
            portable: kind.portable(&mapped).ok()?,
            comparable: kind.comparable(&mapped).ok()?,
        })
    }
}
