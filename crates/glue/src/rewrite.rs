//! Exchanging ids: in paths, URLs and bodies. Only the bytes of an id that changes are written anew.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{
    Address, Effect, Kind, ListShape, NotAList, NotJson, Own, Profile,
    edit::{self, Edit},
    json::{self, Found},
    key,
    kind::{Referred, Spot},
    percent,
    trail::{End, Trail},
    url,
};

/// A translation of ids.
pub trait Ids {
    /// The id to write for `id`; none leaves it as it is and says that it is no replica's. `key` is the key
    /// as far as the place of the id tells it: with the parents in a path, the id alone in a body that refers
    /// to it.
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String>;
}

/// What a hole looks like.
const HOLE: &str = "{id}";

/// A list with its ids exchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedList {
    pub body: Bytes,
    /// The places of the items whose own id the translation knows.
    pub replicas: Vec<usize>,
}

impl Profile {
    /// Exchanges the ids in a path and its query: the own one as told, those of parents and at the query's
    /// references through `ids`.
    pub fn map_path(&self, service: &str, path_and_query: &str, own: Own<'_>, ids: &dyn Ids) -> String {
        let end = path_and_query.find(['?', '#']).unwrap_or(path_and_query.len());
        let (path, rest) = path_and_query.split_at(end);
        let trail = Trail::of(self, service, path);
        let own_place = match trail.end {
            End::Item => trail.places.len().checked_sub(1),
            End::Collection(_) | End::Other => None,
        };
        let mut edits = Vec::new();
        for (at, place) in trail.places.iter().enumerate() {
            let Some(kind) = &place.kind else { continue };
            let map = || {
                let (id, parents) = (trail.value(at), trail.parents(at));
                let new = ids.map(service, &kind.name, &id, &key::join(&parents, &id));
                new.filter(|new| *new != id)
            };
            let own = if own_place == Some(at) { own } else { Own::Map };
            let new = match own {
                Own::Keep => None,
                Own::Hole => Some(HOLE.to_owned()),
                Own::Map => map().map(|id| encoded(&id)),
                Own::Put(id) => (trail.value(at) != id).then(|| encoded(id)),
            };
            edits.extend(new.map(|new| (place.range.clone(), new)));
        }
        let kind = match &trail.end {
            End::Item => trail.places.last().and_then(|place| place.kind.as_ref()),
            End::Collection(kind) => Some(kind),
            End::Other => None,
        };
        if let Some(kind) = kind.and_then(|kind| kind.described) {
            map_query(kind, rest, end, ids, &mut edits);
        }
        edit::apply(path_and_query, edits).into_owned()
    }

    /// Exchanges the ids in a URL of a service, or in its path alone. None when nothing changes.
    pub fn map_url(&self, service: &str, url: &str, ids: &dyn Ids) -> Option<String> {
        let (origin, path) = url::split(url)?;
        let new = self.map_path(service, path, Own::Map, ids);
        (new != path).then(|| format!("{origin}{new}"))
    }
}

fn encoded(id: &str) -> String {
    let mut out = String::new();
    percent::encode_segment_into(&mut out, id);
    out
}

/// `rest` begins with the query, if there is one, and stands at `offset`.
fn map_query(kind: &Kind, rest: &str, offset: usize, ids: &dyn Ids, edits: &mut Vec<Edit>) {
    let references = &kind.rules().query_references;
    let Some(query) = rest.strip_prefix('?').filter(|_| !references.is_empty()) else {
        return;
    };
    let query = query.split('#').next().unwrap_or_default();
    let mut at = offset + 1;
    for parameter in query.split('&') {
        if let Some((name, value)) = parameter.split_once('=') {
            let name_decoded = percent::decode_text(name);
            let reference = references.iter().find(|it| *it.parameter == *name_decoded);
            let id = percent::decode_text(value);
            let new = reference.and_then(|reference| refer(ids, &reference.referred, &id));
            edits.extend(new.map(|new| {
                let mut out = String::new();
                percent::encode_into(&mut out, &new);
                let start = at + name.len() + 1;
                (start..start + value.len(), out)
            }));
        }
        at += parameter.len() + 1;
    }
}

/// Another id for a resource that is referred to.
fn refer(ids: &dyn Ids, referred: &Referred, id: &str) -> Option<String> {
    let new = ids.map(&referred.service, &referred.kind, id, id);
    new.filter(|new| new != id)
}

impl Address<'_> {
    /// Exchanges the ids in the body of a request to this address or of an answer from it: one resource, as
    /// the glue describes it. Where the address lies below the resource, its own id is exchanged through
    /// `ids` and only if it is the addressed one; other bodies there have ids of their own. What the glue calls
    /// a part is left as it is.
    pub fn map_body<'b>(
        &self,
        body: &'b [u8],
        own: Own<'_>,
        ids: &dyn Ids,
    ) -> Result<Cow<'b, [u8]>, NotJson> {
        if body.is_empty() {
            return Ok(Cow::Borrowed(body));
        }
        let rules = self.rules();
        if rules.is_part(self.below) {
            return Ok(Cow::Borrowed(body));
        }
        let (text, root) = edit::parse(body)?;
        let mut edits = Vec::new();
        let mapping = Mapping {
            address: self,
            kind: &rules,
            own,
            ids,
        };
        if let Found::Value(document) = json::find(root, &rules.rules().document)? {
            mapping.document(text, document, &mut edits)?;
        }
        Ok(match edit::apply(text, edits) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }

    /// Whether a request to this address must have a body that can be read.
    pub fn reads_request_body(&self, effect: &Effect) -> bool {
        let rules = self.rules();
        !rules.is_part(self.below) && rules.reads_request_body(effect)
    }

    /// Exchanges the ids in every item of a list of so many items at most, and says which items are replicas.
    pub fn map_list(
        &self,
        shape: &ListShape,
        body: Bytes,
        items_max: usize,
        ids: &dyn Ids,
    ) -> Result<MappedList, NotAList> {
        let page = shape.read_up_to(body.clone(), items_max)?;
        let rules = self.rules();
        let mapping = Mapping {
            address: self,
            kind: &rules,
            own: Own::Map,
            ids,
        };
        let mut edits = Vec::new();
        let mut replicas = Vec::new();
        for (place, document) in page.documents().enumerate() {
            let Some(document) = document else { continue };
            if mapping.document(page.text(), json::read(document)?, &mut edits)? {
                replicas.push(place);
            }
        }
        let body = match edit::apply(page.text(), edits) {
            Cow::Borrowed(_) => body,
            Cow::Owned(text) => text.into(),
        };
        Ok(MappedList { body, replicas })
    }
}

/// How the documents of one kind are changed.
struct Mapping<'m> {
    address: &'m Address<'m>,
    kind: &'m Kind,
    own: Own<'m>,
    ids: &'m dyn Ids,
}

impl Mapping<'_> {
    /// Adds the edits for one document within `text`, and says whether the own id is known to the
    /// translation.
    fn document(
        &self,
        text: &str,
        root: &RawValue,
        edits: &mut Vec<Edit>,
    ) -> Result<bool, serde_json::Error> {
        let mut is_replica = false;
        let mut change = |value: &RawValue, spot: &Spot| {
            let Some(old) = edit::id_text(value) else { return };
            let new = match spot {
                Spot::Own => {
                    let new = self.own_value(root, value, &old);
                    is_replica |= new.is_some();
                    new
                }
                Spot::Reference(referred) => {
                    refer(self.ids, referred, &old).map(|new| edit::id_value(value, &new))
                }
                Spot::Link => {
                    let Address { profile, service, .. } = self.address;
                    let new = profile.map_url(service, &old, self.ids);
                    new.map(|new| json::quote(&new))
                }
            };
            let new = new.filter(|new| *new != value.get());
            edits.extend(new.map(|new| (json::range_in(text, value), new)));
        };
        self.kind.rules().spots.visit(root, &mut change)?;
        Ok(is_replica)
    }

    /// What is written for the own id `old` that stands as `value` in `document`; none leaves it.
    fn own_value(&self, document: &RawValue, value: &RawValue, old: &str) -> Option<String> {
        let map = || {
            let (kind, key) = self.address.owner(document, old);
            let new = self.ids.map(self.address.service, kind, old, &key)?;
            // What stays the same is not written in another way.
            Some(if new == old {
                value.get().to_owned()
            } else {
                edit::id_value(value, &new)
            })
        };
        if !self.address.below.is_empty() {
            let addressed = self.address.id.as_deref();
            let is_own = addressed.is_some_and(|id| id == old || id == HOLE);
            return (self.own != Own::Keep && is_own).then(map).flatten();
        }
        match self.own {
            Own::Map => map(),
            Own::Keep => None,
            Own::Hole if edit::is_number(value) => Some("0".to_owned()),
            Own::Hole => Some(json::quote(HOLE)),
            Own::Put(id) => Some(edit::id_value(value, id)),
        }
    }
}
