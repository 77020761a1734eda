//! What a patch has changed, as a merge patch (RFC 7396): sites can take it in any order that the merge rules
//! give, and more than once.

use serde_json::{Map, Value, json};

use super::{Kind, Rendered, UpdateForm, selected};
use crate::NotJson;

/// Says of a recorded body that it is a merge patch which the application itself does not take.
pub(super) const DIFFERENCE: &str = "application/vnd.cheops.difference+json";

/// How a change of a document is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub method: String,
    pub content_type: String,
    /// A merge patch, with the document's place around it.
    pub body: Vec<u8>,
}

/// A change of this site's replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Request(Rendered),
    /// The replica is like that already.
    Nothing,
}

impl Kind {
    /// What has changed between two answers about one resource, without what only one replica has. Ids of
    /// other resources must have been mapped to what is the same at all sites. A change of nothing is an empty
    /// patch.
    pub fn difference(&self, before: &[u8], after: &[u8]) -> Result<Recorded, NotJson> {
        let document = |body| Ok::<_, NotJson>(self.portable_document(self.document(body)?));
        let (before, after) = (document(before)?, document(after)?);
        let patch = changes(&before, &after).unwrap_or_else(|| json!({}));
        let update = &self.rules.update;
        let is_taken = update.form == UpdateForm::Merge;
        let (method, content_type) = if is_taken {
            (&*update.method, &*update.content_type)
        } else {
            ("PATCH", DIFFERENCE)
        };
        Ok(Recorded {
            method: method.to_owned(),
            content_type: content_type.to_owned(),
            body: self.wrapped(patch),
        })
    }

    /// Whether a recorded merge patch has to be joined with this site's replica before it can be sent: the
    /// application takes no such patches, or it sets something that each site has its own value for.
    pub fn merge_needs_current(&self, content_type: Option<&str>, body: &[u8]) -> bool {
        if content_type.is_some_and(|it| it.eq_ignore_ascii_case(DIFFERENCE)) {
            return true;
        }
        let site_owned = &self.rules.site_owned;
        if site_owned.is_empty() {
            return false;
        }
        let patch = self.document(body);
        patch.is_ok_and(|patch| site_owned.iter().any(|owned| selected::is_touched(&patch, owned)))
    }

    /// Whether a recorded replace has to be joined with this site's replica before it can be sent.
    pub fn replace_needs_current(&self) -> bool {
        !self.rules.site_owned.is_empty() || !self.rules.preconditions.is_empty()
    }

    /// The update that makes a recorded merge patch happen to this site's replica, `current`.
    pub fn merge_into(&self, key: &str, patch: &[u8], current: &[u8]) -> Result<Changed, NotJson> {
        let current = self.document(current)?;
        let mut target = current.clone();
        apply(&mut target, &self.document(patch)?);
        let target = self.portable_document(target);
        Ok(self.update(key, target, &current))
    }

    /// The update that makes this site's replica like another one. `state` is a body about one resource; what
    /// only one replica has keeps its value in `current`, this site's replica as it is now.
    pub fn overwrite_from(&self, key: &str, state: &[u8], current: &[u8]) -> Result<Changed, NotJson> {
        let current = self.document(current)?;
        let state = self.portable_document(self.document(state)?);
        Ok(self.update(key, state, &current))
    }

    fn update(&self, key: &str, state: Value, current: &Value) -> Changed {
        let target = self.joined(state, current);
        let update = &self.rules.update;
        let patch = changes(current, &target);
        let body = match (update.form, patch) {
            // Without one, what an application does at each write would not happen where it is repaired.
            (UpdateForm::Replace, _) => self.wrapped(target),
            (_, None) => return Changed::Nothing,
            (UpdateForm::Merge, Some(patch)) => self.wrapped(patch),
            (UpdateForm::JsonPatch, Some(patch)) => {
                let mut list = Vec::new();
                as_list(&mut String::new(), &patch, current, &mut list);
                Value::Array(list).to_string().into_bytes()
            }
        };
        Changed::Request(Rendered {
            method: update.method.clone(),
            path: self.item_path(key),
            content_type: update.content_type.clone(),
            body,
        })
    }
}

/// The merge patch that makes `after` of `before`; none where they are equal. Arrays are replaced whole, and a
/// member that is null is as good as none.
fn changes(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (name, value) in new {
        let change = match old.get(name) {
            Some(old) => changes(old, value),
            None => (!value.is_null()).then(|| value.clone()),
        };
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let gone = old
        .iter()
        .filter(|(name, value)| !value.is_null() && !new.contains_key(*name));
    patch.extend(gone.map(|(name, _)| (name.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Does what RFC 7396 says.
fn apply(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        patch.clone_into(value);
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(members) = value else { return };
    for (name, change) in patch {
        if change.is_null() {
            members.shift_remove(name);
        } else {
            apply(members.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

/// A merge patch as a list of changes (RFC 6902) of `current`.
fn as_list(at: &mut String, patch: &Value, current: &Value, list: &mut Vec<Value>) {
    let (Value::Object(patch), Value::Object(members)) = (patch, current) else {
        list.push(json!({ "op": "replace", "path": &**at, "value": patch }));
        return;
    };
    for (name, change) in patch {
        let length = at.len();
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        match (members.get(name), change) {
            (Some(_), Value::Null) => list.push(json!({ "op": "remove", "path": &**at })),
            (Some(old), change) => as_list(at, change, old, list),
            (None, Value::Null) => {}
            (None, change) => list.push(json!({ "op": "add", "path": &**at, "value": change })),
        }
        at.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &Value, after: &Value, patch: Option<&Value>) {
        assert_eq!(changes(before, after).as_ref(), patch, "{before} {after}");
        if let Some(patch) = patch {
            let mut patched = before.clone();
            apply(&mut patched, patch);
            assert_eq!(patched, *after);
            apply(&mut patched, patch);
            assert_eq!(patched, *after, "once more");
        }
    }

    #[test]
    fn a_difference_makes_one_of_the_other() {
        check(&json!({"a": 1}), &json!({"a": 1}), None);
        check(&json!({"a": 1}), &json!({"a": 2}), Some(&json!({"a": 2})));
        check(
            &json!({"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}, "f": 0}),
            &json!({"a": {"b": 1, "c": [2]}, "d": 3, "g": {"h": 1}}),
            Some(&json!({"a": {"c": [2]}, "d": 3, "g": {"h": 1}, "f": null})),
        );
        check(&json!({"a": null}), &json!({}), None);
        check(&json!({}), &json!({"a": null}), None);
        check(
            &json!({"a": {}}),
            &json!({"a": {"b": {}}}),
            Some(&json!({"a": {"b": {}}})),
        );
    }

    #[test]
    fn a_difference_can_be_a_list_of_changes() {
        let current = json!({"name": "a", "tags": ["x"], "extra": {"a/b": 1}, "old": 1});
        let patch = json!({"name": "b", "tags": [], "extra": {"a/b": 2, "c": 3}, "old": null, "none": null});
        let mut list = Vec::new();
        as_list(&mut String::new(), &patch, &current, &mut list);
        assert_eq!(
            Value::Array(list),
            json!([
                {"op": "replace", "path": "/name", "value": "b"},
                {"op": "replace", "path": "/tags", "value": []},
                {"op": "replace", "path": "/extra/a~1b", "value": 2},
                {"op": "add", "path": "/extra/c", "value": 3},
                {"op": "remove", "path": "/old"},
            ])
        );
    }
}
