//! An answer's body with ids as the caller knows them.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use cheops_glue::{Address, ListShape, MappedList, NotAList, Own, Profile};
use cheops_plan::Known;
use cheops_types::{Code, Limit, Problem, ServiceName};

use super::{
    ids::{To, Translation},
    places::{Places, Placing},
};
use crate::{
    Shared, World,
    job::{AnswerIds, Job},
    memory::Lease,
};

/// What showing a body takes beside it. A long one is shown beside the core, where the request itself is not.
pub(super) struct Showing {
    world: Arc<World>,
    shared: Arc<Shared>,
    service: ServiceName,
    path: String,
    acted: Option<String>,
    list: Option<Arc<ListShape>>,
    method: String,
    /// Whether another agent is told which items are replicas.
    tells_places: bool,
    /// The set that the request was about, with its kind, as it was before.
    own: Option<(String, Known)>,
}

/// A body as it is shown.
pub(super) struct Shown {
    pub(super) body: Bytes,
    pub(super) is_changed: bool,
    pub(super) places: Option<Places>,
    pub(super) held: Lease,
}

/// What an answer is about; `acted` is the kind of the resource that acted, where it is about that one.
pub(super) fn answered<'a>(
    profile: &'a Profile,
    service: &'a str,
    path: &'a str,
    acted: Option<&str>,
) -> Option<Address<'a>> {
    let of_kind = |kind: &str| {
        let mut within = profile.within(service, path).into_iter();
        within.find(|address| &*address.kind == kind)
    };
    acted.and_then(of_kind).or_else(|| profile.address(service, path))
}

impl Showing {
    pub(super) fn new(job: &Job, path: &str, acted: Option<&str>, own: Option<(&str, &Known)>) -> Self {
        Self {
            world: job.core.world.clone(),
            shared: job.core.shared.clone(),
            service: job.service.name.clone(),
            path: path.to_owned(),
            acted: acted.map(str::to_owned),
            list: job.list.clone(),
            method: job.head.method.as_str().to_owned(),
            tells_places: job.answer_ids == AnswerIds::Told,
            own: own.map(|(kind, known)| (kind.to_owned(), known.clone())),
        }
    }

    pub(super) fn run(self, bytes: Bytes, mut held: Lease) -> Result<Shown, Problem> {
        let limits = &self.world.limits;
        let profile = &self.world.profile;
        let address = answered(profile, &self.service, &self.path, self.acted.as_deref());
        let ids = Translation::new(&self.shared, limits, To::Shown);
        let (Some(address), Some(mut ids)) = (address, ids) else {
            return Ok(Shown {
                body: bytes,
                is_changed: false,
                places: None,
                held,
            });
        };
        if let Some((kind, known)) = &self.own {
            ids = ids.with(kind, known);
        }
        let (shown, places) = match self.list(&address, &bytes, &ids)? {
            Some((list, places)) => (list.body, places),
            None => (
                show_one(&address, &bytes, address.own_for(&self.method), &ids),
                None,
            ),
        };
        ids.check()?;
        let is_changed = shown != bytes;
        drop(bytes);
        held.resize(shown.len(), limits)
            .map_err(|code| Problem::new(code, code.title()))?;
        Ok(Shown {
            body: shown,
            is_changed,
            places,
            held,
        })
    }

    /// The body as a list, if it is one.
    fn list(
        &self,
        address: &Address<'_>,
        bytes: &Bytes,
        ids: &Translation<'_>,
    ) -> Result<Option<(MappedList, Option<Places>)>, Problem> {
        let Some(shape) = &self.list else {
            return Ok(None);
        };
        let items_max = self.world.limits.gather_items_max;
        match address.map_list(shape, bytes.clone(), items_max, ids) {
            Ok(list) if self.tells_places => {
                let places = self.places(shape, address, &list)?;
                Ok(Some((list, Some(places))))
            }
            Ok(list) => Ok(Some((list, None))),
            // Shown as one resource its items would keep ids that only this site knows.
            Err(error @ (NotAList::TooManyItems { .. } | NotAList::TooLong)) => {
                Limit::GatherItems.hit();
                let detail = format!("{error}, and ids in it are to be rewritten: ask for smaller pages");
                Err(Problem::new(Code::BodyTooLarge, detail))
            }
            Err(_) => Ok(None),
        }
    }

    /// Which items of a list are replicas, and of which sites.
    fn places(&self, shape: &ListShape, address: &Address<'_>, list: &MappedList) -> Result<Places, Problem> {
        let mut places = Placing::default();
        let Some(coordinator) = self.shared.replication().filter(|_| !list.replicas.is_empty()) else {
            return Ok(Places::default());
        };
        let Ok(page) = shape.read(list.body.clone()) else {
            return Ok(Places::default());
        };
        for place in &list.replicas {
            if let Some(document) = page.document(*place)
                && let Some((kind, id, key)) = address.resource_in(document)
                && let Some(known) = coordinator.find(address.service(), kind, &id, &key)?
            {
                places.add(*place, known.sites);
            }
        }
        Ok(places.finish())
    }
}

/// The body as one resource.
fn show_one(address: &Address<'_>, bytes: &Bytes, own: Own<'_>, ids: &Translation<'_>) -> Bytes {
    match address.map_body(bytes, own, ids) {
        Ok(Cow::Owned(shown)) => Bytes::from(shown),
        // What is not JSON in spite of its type has no ids to rewrite.
        Ok(Cow::Borrowed(_)) | Err(_) => bytes.clone(),
    }
}
