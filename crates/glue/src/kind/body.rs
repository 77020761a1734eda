//! Reading and changing the documents of a kind.

use std::borrow::Cow;

use cheops_types::ServiceName;
use serde_json::{Value, value::RawValue};

use super::{Effect, IdRule, Kind, MetaFormat, Spot};
use crate::{
    Pointer,
    edit::{self, NotJson},
    json::{self, Found},
    percent,
    routes::Segments,
    selector::is_every,
    url,
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
        let in_body = || id_at(body, self.rules.own_id());
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
            IdRule::Client | IdRule::Settable => id_at(body, &self.rules.name),
        }
    }

    /// The own id of one item of a list.
    pub(crate) fn id_of_item(&self, item: &str) -> Option<String> {
        id_at(item.as_bytes(), self.rules.own_id())
    }

    /// The body of a create that asks for this id.
    pub fn with_id(&self, body: &[u8], id: &str) -> Result<Vec<u8>, NotJson> {
        let value = match self.rules.meta_format {
            MetaFormat::Integer { .. } => id.to_owned(),
            MetaFormat::Uuid | MetaFormat::None => json::quote(id),
        };
        with(body, &self.rules.name, &value)
    }

    pub(super) fn has_room_for_marker(&self, body: &[u8]) -> bool {
        let Some(marker) = &self.rules.marker else {
            return false;
        };
        let Ok((_, root)) = edit::parse(if body.is_empty() { b"{}" } else { body }) else {
            return false;
        };
        match json::find(root, &marker.pointer) {
            Ok(Found::Value(value)) => value.get() == "null",
            Ok(Found::Missing { .. }) => true,
            Ok(Found::Blocked) | Err(_) => false,
        }
    }

    /// The body of a create that carries an operation's token; the same body where there is no marker.
    pub fn with_marker(&self, body: &[u8], token: &str) -> Result<Vec<u8>, NotJson> {
        match &self.rules.marker {
            Some(marker) => with(body, &marker.pointer, &json::quote(token)),
            None => Ok(body.to_vec()),
        }
    }

    /// A body without what holds only where it was accepted.
    pub fn without_preconditions<'b>(&self, body: &'b [u8]) -> Result<Cow<'b, [u8]>, NotJson> {
        if self.rules.preconditions.is_empty() || body.is_empty() {
            return Ok(Cow::Borrowed(body));
        }
        let mut value: Value = serde_json::from_slice(body)?;
        let mut removed = false;
        for selector in &self.rules.preconditions {
            removed |= remove(&mut value, selector.steps());
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
        let mut note = |value: &RawValue, spot: &Spot| {
            if let (Spot::Reference(referred), Some(id)) = (spot, edit::id_text(value)) {
                references.push(Reference {
                    service: referred.service.clone(),
                    kind: referred.kind.clone(),
                    id: id.into_owned(),
                });
            }
        };
        match self.rules.spots.visit(root, &mut note) {
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
        match effect {
            Effect::Create => {
                rules.chosen_by != IdRule::Server || rules.marker.is_some() || !rules.references.is_empty()
            }
            Effect::Replace | Effect::Merge => !rules.references.is_empty() || !rules.links.is_empty(),
            Effect::Read | Effect::Action { .. } | Effect::Delete | Effect::Free => false,
        }
    }

    /// What is compared between replicas: equal for equal replicas, whatever the order of members. Ids of
    /// other resources must have been mapped to what is the same at all sites.
    pub fn comparable(&self, body: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut value: Value = serde_json::from_slice(body)?;
        for selector in self
            .rules
            .of_one_replica()
            .chain(self.rules.links.iter().cloned())
        {
            remove(&mut value, selector.steps());
        }
        value.sort_all_objects();
        Ok(value.to_string().into_bytes())
    }

    /// What travels to make or overwrite another replica.
    pub fn portable(&self, body: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut value: Value = serde_json::from_slice(body)?;
        for selector in self.rules.of_one_replica() {
            remove(&mut value, selector.steps());
        }
        Ok(value.to_string().into_bytes())
    }

    /// `state` with what only the replica `current` has.
    pub(super) fn joined(&self, state: &[u8], current: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut state: Value = serde_json::from_slice(state)?;
        let current: Value = serde_json::from_slice(current)?;
        for selector in self.rules.of_one_replica() {
            graft(&mut state, &current, selector.steps());
        }
        Ok(state.to_string().into_bytes())
    }
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

/// Removes what the steps lead to, and says whether there was anything.
fn remove(value: &mut Value, steps: &[String]) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return false;
    };
    let every = is_every(step);
    match value {
        Value::Object(members) if rest.is_empty() => {
            if every {
                let had_any = !members.is_empty();
                members.clear();
                had_any
            } else {
                members.shift_remove(step).is_some()
            }
        }
        Value::Object(members) if every => members
            .values_mut()
            .fold(false, |removed, value| remove(value, rest) | removed),
        Value::Object(members) => members.get_mut(step).is_some_and(|value| remove(value, rest)),
        Value::Array(elements) if every && rest.is_empty() => {
            let had_any = !elements.is_empty();
            elements.clear();
            had_any
        }
        Value::Array(elements) if every => elements
            .iter_mut()
            .fold(false, |removed, value| remove(value, rest) | removed),
        _ => false,
    }
}

/// Puts what the steps lead to in `from` at the same places of `into`. Elements of arrays belong together
/// by their places.
fn graft(into: &mut Value, from: &Value, steps: &[String]) {
    let Some((step, rest)) = steps.split_first() else {
        *into = from.clone();
        return;
    };
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            let names = from.keys().filter(|name| is_every(step) || *name == step);
            for name in names {
                if let Some(inner) = into.get_mut(name) {
                    graft(inner, &from[name], rest);
                } else if let Some(inner) = only(&from[name], rest) {
                    into.insert(name.clone(), inner);
                }
            }
        }
        (Value::Array(into), Value::Array(from)) if is_every(step) => {
            for (into, from) in into.iter_mut().zip(from) {
                graft(into, from, rest);
            }
        }
        _ => {}
    }
}

/// What the steps lead to and the objects around it, nothing else.
fn only(value: &Value, steps: &[String]) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value.clone());
    };
    let members = value.as_object()?.iter();
    let named = members.filter(|(name, _)| is_every(step) || *name == step);
    let kept: serde_json::Map<_, _> = named
        .filter_map(|(name, value)| Some((name.clone(), only(value, rest)?)))
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}
