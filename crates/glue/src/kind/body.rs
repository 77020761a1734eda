//! Reading and changing the documents of a kind.

use std::borrow::Cow;

use cheops_types::ServiceName;
use serde_json::{Value, value::RawValue};

use super::{Effect, IdRule, Kind, MetaFormat, Spot, selected};
use crate::{
    Pointer,
    edit::{self, NotJson},
    json::{self, Found},
    pattern::Segments,
    percent, url,
};

/// A resource that another one refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub service: ServiceName,
    pub kind: String,
    pub id: String,
}

impl Kind {
    /// The id of a resource that was created, from the answer.
    pub fn id_in_answer(&self, location: Option<&str>, body: &[u8]) -> Option<String> {
        let in_body = || id_at(body, &self.in_body(self.rules.own_id()));
        let in_location = || {
            let (_, path) = url::split(location?)?;
            let path = path.split(['?', '#']).next().unwrap_or_default();
            // Some applications tell another place, such as that of a task.
            let is_item = self.item.matches(path) || self.is_by_convention();
            let id = Segments::of(path).last().filter(|_| is_item)?;
            Some(percent::decode_text(id).into_owned())
        };
        if self.rules.id.is_some() {
            in_body().or_else(in_location)
        } else {
            in_location().or_else(in_body)
        }
    }

    fn is_by_convention(&self) -> bool {
        self.name.starts_with('/')
    }

    /// The id that a create asks for; none where the caller does not choose.
    pub fn name_in_request(&self, body: &[u8]) -> Option<String> {
        match self.rules.chosen_by {
            IdRule::Server => None,
            IdRule::Client | IdRule::Settable => id_at(body, &self.in_body(&self.rules.name)),
        }
    }

    /// Where something of a document stands in a request or an answer about it alone.
    pub(super) fn in_body(&self, pointer: &Pointer) -> Pointer {
        self.rules.document.with(pointer)
    }

    /// The beginning of a name that a create wants completed; none where it tells a name, or no beginning.
    pub fn name_to_complete(&self, body: &[u8]) -> Option<String> {
        let generate = self.rules.generate.as_ref()?;
        let is_named = self.name_in_request(body).is_some_and(|name| !name.is_empty());
        let beginning = (!is_named).then(|| id_at(body, &self.in_body(generate)))??;
        (!beginning.is_empty()).then_some(beginning)
    }

    /// The own id of one item of a list.
    pub fn id_of_item(&self, item: &str) -> Option<String> {
        id_at(item.as_bytes(), self.rules.own_id())
    }

    /// The body of a create that asks for this id.
    pub fn with_id(&self, body: &[u8], id: &str) -> Result<Vec<u8>, NotJson> {
        let value = match self.rules.meta_format {
            // Whatever else a peer calls its set stays one text, and cannot add members to the body.
            MetaFormat::Integer { .. } if edit::is_whole(id) => id.to_owned(),
            MetaFormat::Integer { .. } | MetaFormat::Uuid | MetaFormat::Hex | MetaFormat::None => {
                json::quote(id)
            }
        };
        with(body, &self.in_body(&self.rules.name), &value)
    }

    pub(super) fn has_room_for_marker(&self, body: &[u8]) -> bool {
        let Some(marker) = &self.rules.marker else {
            return false;
        };
        let Ok((_, root)) = edit::parse(if body.is_empty() { b"{}" } else { body }) else {
            return false;
        };
        match json::find(root, &self.in_body(&marker.pointer)) {
            Ok(Found::Value(value)) => value.get() == "null",
            Ok(Found::Missing { .. }) => true,
            Ok(Found::Blocked) | Err(_) => false,
        }
    }

    /// The body of a create that carries an operation's token; the same body where there is no marker.
    pub fn with_marker(&self, body: &[u8], token: &str) -> Result<Vec<u8>, NotJson> {
        match &self.rules.marker {
            Some(marker) => with(body, &self.in_body(&marker.pointer), &json::quote(token)),
            None => Ok(body.to_vec()),
        }
    }

    /// A body without what holds only where it was accepted.
    pub fn without_preconditions<'b>(&self, body: &'b [u8]) -> Result<Cow<'b, [u8]>, NotJson> {
        if self.rules.preconditions.is_empty() || body.is_empty() {
            return Ok(Cow::Borrowed(body));
        }
        let mut value = edit::build(body)?;
        let mut removed = false;
        if let Some(document) = self.document_mut(&mut value) {
            for selector in &self.rules.preconditions {
                removed |= selected::remove(document, selector);
            }
        }
        Ok(if removed {
            Cow::Owned(value.to_string().into_bytes())
        } else {
            Cow::Borrowed(body)
        })
    }

    /// The resources that a document refers to; none where it cannot be read.
    pub fn references(&self, body: &[u8]) -> Vec<Reference> {
        let mut references = Vec::new();
        let Ok((_, root)) = edit::parse(body) else {
            return references;
        };
        let Ok(Found::Value(document)) = json::find(root, &self.rules.document) else {
            return references;
        };
        let mut note = |value: &RawValue, spot: &Spot| {
            if let (Spot::Reference(referred), Some(id)) = (spot, edit::id_text(value)) {
                references.push(Reference {
                    service: referred.service.clone(),
                    kind: referred.kind.clone(),
                    id: id.into_owned(),
                });
            }
        };
        match self.rules.spots.visit(document, &mut note) {
            Ok(()) => references,
            Err(_) => Vec::new(),
        }
    }

    /// The kinds, each with its service, whose ids stand in queries or bodies of this one.
    pub fn related(&self) -> impl Iterator<Item = (&str, &str)> {
        let rules = &self.rules;
        let bodies = rules.references.iter().map(|(_, referred)| referred);
        let queries = rules.query_references.iter().map(|reference| &reference.referred);
        bodies
            .chain(queries)
            .map(|referred| (referred.service.as_str(), referred.kind.as_str()))
    }

    /// Whether bodies have links, in which ids of any kind can stand.
    pub fn has_links(&self) -> bool {
        !self.rules.links.is_empty()
    }

    /// Whether a request of this effect must have a body that can be read.
    pub fn reads_request_body(&self, effect: &Effect) -> bool {
        let rules = &self.rules;
        let has_ids = !rules.references.is_empty() || !rules.links.is_empty();
        match effect {
            Effect::Create => {
                rules.chosen_by != IdRule::Server || rules.marker.is_some() || !rules.references.is_empty()
            }
            Effect::Replace | Effect::Merge => has_ids || !rules.preconditions.is_empty(),
            Effect::Delete => !rules.preconditions.is_empty() || !rules.effect_free_bodies.is_empty(),
            Effect::Read | Effect::Action { .. } | Effect::Difference { .. } | Effect::Free => false,
        }
    }

    /// Whether a request with this body changes nothing, whatever its method.
    pub fn is_effect_free_body(&self, body: &[u8]) -> bool {
        let pointers = &self.rules.effect_free_bodies;
        if pointers.is_empty() || body.is_empty() {
            return false;
        }
        let Ok((_, root)) = edit::parse(body) else {
            return false;
        };
        let says_so = |pointer: &Pointer| match json::find(root, pointer) {
            Ok(Found::Value(value)) => !matches!(value.get(), "null" | "false" | "[]" | "\"\""),
            _ => false,
        };
        pointers.iter().any(says_so)
    }

    /// What is compared between replicas: equal for equal replicas, whatever the order of members. Ids of
    /// other resources must have been mapped to what is the same at all sites.
    pub fn comparable(&self, body: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut value = self.document(body)?;
        for selector in self
            .rules
            .of_one_replica()
            .chain(self.rules.links.iter().cloned())
        {
            selected::remove(&mut value, &selector);
        }
        value.sort_all_objects();
        Ok(value.to_string().into_bytes())
    }

    /// What travels to make or overwrite another replica.
    pub fn portable(&self, body: &[u8]) -> Result<Vec<u8>, NotJson> {
        let document = self.document(body)?;
        Ok(self.wrapped(self.portable_document(document)))
    }

    pub(super) fn portable_document(&self, mut document: Value) -> Value {
        for selector in self.rules.of_one_replica() {
            selected::remove(&mut document, &selector);
        }
        document
    }

    /// `state` with what only the replica `current` has.
    pub(super) fn joined(&self, mut state: Value, current: &Value) -> Value {
        for selector in self.rules.of_one_replica() {
            selected::graft(&mut state, current, &selector);
        }
        state
    }

    /// Whether a document has this: its application is about to remove it, and the name is not free yet.
    pub fn is_leaving(&self, body: &[u8]) -> bool {
        let document = self.document(body).ok();
        let value = document
            .as_ref()
            .zip(self.rules.leaving.as_ref())
            .and_then(|(document, pointer)| at(document, pointer));
        value.is_some_and(|value| !value.is_null())
    }

    /// Whether a name can be taken by something that is about to go.
    pub fn can_be_leaving(&self) -> bool {
        self.rules.leaving.is_some()
    }

    /// The document of a request or an answer about one resource.
    pub(super) fn document(&self, body: &[u8]) -> Result<Value, NotJson> {
        let mut value = edit::build(body)?;
        for step in self.rules.document.steps() {
            let inner = value
                .as_object_mut()
                .and_then(|members| members.shift_remove(step));
            value = inner.ok_or_else(|| NotJson(format!("it has nothing at `{}`", self.rules.document)))?;
        }
        Ok(value)
    }

    /// A request about one resource with this document.
    pub(super) fn wrapped(&self, document: Value) -> Vec<u8> {
        let steps = self.rules.document.steps().iter().rev();
        let wrapped = steps.fold(document, |inner, step| {
            Value::Object([(step.clone(), inner)].into_iter().collect())
        });
        wrapped.to_string().into_bytes()
    }

    fn document_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        let mut steps = self.rules.document.steps().iter();
        steps.try_fold(value, |value, step| value.get_mut(step))
    }
}

/// What stands at a place.
pub(super) fn at<'v>(value: &'v Value, pointer: &Pointer) -> Option<&'v Value> {
    let mut steps = pointer.steps().iter();
    steps.try_fold(value, |value, step| value.get(step))
}

fn id_at(body: &[u8], pointer: &Pointer) -> Option<String> {
    let (_, root) = edit::parse(body).ok()?;
    match json::find(root, pointer).ok()? {
        Found::Value(value) => edit::id_text(value).map(Cow::into_owned),
        Found::Missing { .. } | Found::Blocked => None,
    }
}

fn with(body: &[u8], pointer: &Pointer, value: &str) -> Result<Vec<u8>, NotJson> {
    let body = if body.is_empty() { b"{}" } else { body };
    let (old, _) = edit::parse(body)?;
    let edit = edit::put(old, pointer, value)?;
    Ok(edit::apply(old, vec![edit]).into_owned().into_bytes())
}
