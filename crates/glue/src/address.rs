//! What a path addresses, for replication.

use std::{borrow::Cow, sync::Arc};

use cheops_types::SiteName;
use serde_json::value::RawValue;

use crate::{
    Effect, Kind, ListPage, Profile, edit,
    json::{self, Found},
    key,
    page::Replica,
    profile::{Deeper, Taken},
    trail::{End, Named, Trail},
};

/// The collection or the resource that a path means, or a resource that it lies within.
///
/// Ids in it are as they stand in the path: those of callers or those of this site's application.
#[derive(Debug, Clone)]
pub struct Address<'a> {
    /// The name of the kind; by convention its collection's path, with ids as `{id}`.
    pub kind: Cow<'a, str>,
    /// The own id, decoded; none for a collection.
    pub id: Option<Cow<'a, str>>,
    /// What tells the resource among all of its kind, its parents' ids included; none for a collection.
    pub key: Option<Cow<'a, str>>,
    /// The path behind the resource, such as `/ship`; empty for the resource itself and for a collection.
    pub below: &'a str,
    pub(crate) profile: &'a Profile,
    pub(crate) service: &'a str,
    described: Option<&'a Kind>,
    parents: Vec<Cow<'a, str>>,
    deeper: Option<(&'a Deeper, &'a Kind)>,
}

/// What becomes of the own id of the addressed resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own<'a> {
    /// As all others.
    Map,
    Keep,
    /// A hole, `{id}`; 0 where a number stands.
    Hole,
    Put(&'a str),
}

impl Profile {
    /// What a path addresses, by glue or by convention. `path` has no query. None for the root and for
    /// what exists once.
    pub fn address<'a>(&'a self, service: &'a str, path: &'a str) -> Option<Address<'a>> {
        let trail = Trail::of(self, service, path);
        match &trail.end {
            End::Item => self.resource(service, &trail, trail.places.len() - 1),
            End::Collection(kind) => Some(Address {
                kind: kind.name.clone(),
                id: None,
                key: None,
                below: "",
                profile: self,
                service,
                described: kind.described,
                parents: trail.parents(trail.places.len()),
                deeper: trail.deeper,
            }),
            End::Other => None,
        }
    }

    /// Every resource that a path is or lies within, innermost first. A write to any path that lies within
    /// a replica is a write to that replica.
    pub fn within<'a>(&'a self, service: &'a str, path: &'a str) -> Vec<Address<'a>> {
        let trail = Trail::of(self, service, path);
        let places = (0..trail.places.len()).rev();
        places
            .filter_map(|place| self.resource(service, &trail, place))
            .collect()
    }

    /// Whether resources of other kinds lie within those of this kind. Of a kind that the glue does not describe
    /// nobody knows: it may.
    pub fn may_contain(&self, service: &str, kind: &str) -> bool {
        let kinds = || self.kinds(service).iter();
        let lies_within = |other: &Kind| {
            let ids = vec!["x"; other.placeholders()];
            let path = other.collection_path(&ids.join("/"));
            self.within(service, &path)
                .iter()
                .any(|address| address.kind == kind)
        };
        !kinds().any(|known| known.name() == kind)
            || kinds().filter(|other| other.name() != kind).any(lies_within)
    }

    fn resource<'a>(&'a self, service: &'a str, trail: &Trail<'a>, place: usize) -> Option<Address<'a>> {
        let Named { name, described } = trail.places[place].kind.clone()?;
        let id = trail.value(place);
        let parents = trail.parents(place);
        let key = if parents.is_empty() {
            id.clone()
        } else {
            Cow::Owned(key::join(&parents, &id))
        };
        Some(Address {
            kind: name,
            id: Some(id),
            key: Some(key),
            below: trail.below(place),
            profile: self,
            service,
            described,
            parents,
            deeper: None,
        })
    }
}

impl Address<'_> {
    pub fn service(&self) -> &str {
        self.service
    }

    /// The rules of the kind.
    pub fn rules(&self) -> Cow<'_, Kind> {
        match self.described {
            Some(kind) => Cow::Borrowed(kind),
            None => self.profile.kind(self.service, &self.kind),
        }
    }

    /// What a request to this path does.
    pub fn effect(&self, method: &str, content_type: Option<&str>) -> Effect {
        let below = self.id.is_some().then_some(self.below);
        self.rules().effect(method, below, content_type)
    }

    /// The key of the resource of this kind that has this id and the same parents: after a create its own.
    pub fn key_of(&self, id: &str) -> String {
        key::join(&self.parents, id)
    }

    /// The kinds whose resources are addressed: one, or two where a list shows what stands at several places.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        let deeper = self.deeper.map(|(_, kind)| kind.name());
        std::iter::once(&*self.kind).chain(deeper)
    }

    /// The resource that a document of a list is: its kind, its id and its key; none without an id.
    pub fn resource_in(&self, document: &str) -> Option<(&str, String, String)> {
        let id = self.rules().id_of_item(document)?;
        let (kind, key) = self.owner(json::read(document).ok()?, &id);
        Some((kind, id, key))
    }

    /// The kind and the key of a resource with this id that is shown here. `document` tells the kind where a
    /// list shows several.
    pub(crate) fn owner(&self, document: &RawValue, id: &str) -> (&str, String) {
        let key = |deeper: &Deeper| {
            let Ok(Found::Value(value)) = json::find(document, &deeper.pointer) else {
                return None;
            };
            let container = edit::id_text(value).filter(|text| !text.is_empty())?;
            let parents = deeper.parents.iter().map(|taken| match taken {
                Taken::Path(place) => &*self.parents[*place],
                Taken::Item => &*container,
            });
            Some(key::join(&parents.collect::<Vec<&str>>(), id))
        };
        let deeper = self
            .deeper
            .and_then(|(deeper, kind)| Some((kind.name(), key(deeper)?)));
        deeper.unwrap_or_else(|| (&self.kind, self.key_of(id)))
    }

    /// How an answer's own id is to be treated: what is read below a resource has an id of its own.
    pub fn own_for(&self, method: &str) -> Own<'static> {
        match method {
            "GET" | "HEAD" if !self.below.is_empty() => Own::Keep,
            _ => Own::Map,
        }
    }
}

impl ListPage {
    /// Says which items are replicas, with ids in this page that are the same at all sites, so that a merged list
    /// shows each once. `address` is the list's own; `sites` are the other sites that are known to have the same
    /// one, so that this holds across pages too; none need be known. An item without an id is left as it is.
    pub fn mark<'s>(
        &mut self,
        address: &Address<'_>,
        marks: impl IntoIterator<Item = (usize, &'s Arc<[SiteName]>)>,
    ) {
        // A list shows few kinds: mostly it is that of the item before.
        let mut last: Option<Arc<str>> = None;
        let replicas = marks.into_iter().filter_map(|(place, sites)| {
            let (kind, _, key) = address.resource_in(self.document(place)?)?;
            let kind = match last.take().filter(|last| **last == *kind) {
                Some(last) => last,
                None => kind.into(),
            };
            last = Some(Arc::clone(&kind));
            let sites = Arc::clone(sites);
            Some(Replica {
                place,
                kind,
                key,
                sites,
            })
        });
        let replicas: Vec<_> = replicas.collect();
        self.add_replicas(replicas);
    }
}
