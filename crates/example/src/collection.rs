//! A collection of JSON objects behind REST: what orders and items have in common.

use std::{
    io,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    storage::{Object, Storage},
};

/// How many rows a page has when the caller does not say.
const PAGE_DEFAULT: usize = 100;
/// Most rows of one page.
const PAGE_MAX: usize = 1000;

/// Which page of the list is asked for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Page {
    limit: Option<usize>,
    page_token: Option<String>,
}

/// Rows with the id that the service chose as their `id` member.
#[derive(Debug)]
pub(crate) struct Collection {
    /// Its name in paths, e.g. `items`.
    name: &'static str,
    storage: Mutex<Storage>,
}

impl Collection {
    pub(crate) fn open(name: &'static str, data_dir: &Path, id_base: u64) -> io::Result<Self> {
        std::fs::create_dir_all(data_dir)?;
        let storage = Storage::open(&data_dir.join(format!("{name}.jsonl")), id_base)?;
        Ok(Self {
            name,
            storage: Mutex::new(storage),
        })
    }

    pub(crate) fn create(&self, mut row: Object) -> Result<Response, Failure> {
        row.shift_remove("id");
        let id = self.storage().insert(row.clone())?;
        let location = format!("/{}/{id}", self.name);
        let created = (
            StatusCode::CREATED,
            [(header::LOCATION, location)],
            Json(with_id(id, &row)),
        );
        Ok(created.into_response())
    }

    pub(crate) fn list(&self, page: &Page) -> Result<Response, Failure> {
        let limit = match page.limit {
            Some(0) => return Err(Failure::malformed("limit must be at least 1")),
            limit => limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX),
        };
        let after = match page.page_token.as_deref().map(str::parse) {
            None => None,
            Some(Ok(id)) => Some(id),
            Some(Err(_)) => return Err(Failure::malformed("page_token is not one that a list gave")),
        };
        let storage = self.storage();
        let mut rows = storage.after(after).peekable();
        let mut items = Vec::new();
        let mut last = None;
        for (id, row) in rows.by_ref().take(limit) {
            items.push(with_id(id, row));
            last = Some(id);
        }
        let mut answer = json!({ "items": items });
        if let (Some(id), Some(_)) = (last, rows.peek()) {
            answer["next"] = json!(id.to_string());
        }
        Ok(Json(answer).into_response())
    }

    pub(crate) fn get(&self, id: u64) -> Result<Response, Failure> {
        let storage = self.storage();
        let row = storage.get(id).ok_or_else(|| self.missing(id))?;
        Ok(Json(with_id(id, row)).into_response())
    }

    /// Replaces the row by what `change` makes of it.
    pub(crate) fn change(
        &self,
        id: u64,
        change: impl FnOnce(&Object) -> Result<Object, Failure>,
    ) -> Result<Response, Failure> {
        let mut storage = self.storage();
        let mut row = change(storage.get(id).ok_or_else(|| self.missing(id))?)?;
        row.shift_remove("id");
        storage.replace(id, row.clone())?;
        Ok(Json(with_id(id, &row)).into_response())
    }

    pub(crate) fn delete(&self, id: u64) -> Result<Response, Failure> {
        let mut storage = self.storage();
        storage.get(id).ok_or_else(|| self.missing(id))?;
        storage.remove(id)?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Rows are replaced whole, so a handler that panicked left nothing half done.
    fn storage(&self) -> MutexGuard<'_, Storage> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self, id: u64) -> Failure {
        Failure::not_found(format!("{} has no {id}", self.name))
    }
}

fn with_id(id: u64, row: &Object) -> Value {
    let mut object = Object::from_iter([("id".to_owned(), json!(id))]);
    object.extend(row.iter().map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(object)
}

/// JSON Merge Patch (RFC 7396) on objects.
pub(crate) fn merge(target: &mut Object, patch: Object) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.shift_remove(&name);
            }
            Value::Object(patch) => {
                let member = target.entry(name).or_insert(Value::Null);
                if !member.is_object() {
                    *member = json!({});
                }
                if let Value::Object(member) = member {
                    merge(member, patch);
                }
            }
            value => {
                target.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_as_the_rfc_says() {
        let check = |target: Value, patch: Value, expected: Value| {
            let (Value::Object(mut target), Value::Object(patch)) = (target, patch) else {
                panic!("objects only");
            };
            merge(&mut target, patch);
            assert_eq!(Value::Object(target), expected);
        };
        check(json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 2, "b": 3}));
        check(json!({"a": 1, "b": 2}), json!({"a": null}), json!({"b": 2}));
        check(
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": null, "d": 3}}),
            json!({"a": {"c": 2, "d": 3}}),
        );
        check(
            json!({"a": [1]}),
            json!({"a": {"b": {"c": null}}}),
            json!({"a": {"b": {}}}),
        );
        check(json!({"a": {"b": 1}}), json!({"a": [2]}), json!({"a": [2]}));
    }
}
