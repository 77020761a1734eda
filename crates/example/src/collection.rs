//! A collection of JSON objects behind REST: what orders, items, labels and files have in common.

use std::{
    io,
    path::Path,
    str::FromStr,
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
    if_match::{IfMatch, etag},
    storage::{self, Object, Row, Storage},
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

/// Rows with their id as one of their members. Every answer with a row tells its version as `ETag`.
#[derive(Debug)]
pub(crate) struct Collection<K> {
    /// Its name in paths, e.g. `items`.
    name: String,
    /// The member that is the id.
    id_member: &'static str,
    storage: Mutex<Storage<K>>,
}

impl<K: storage::Id> Collection<K> {
    pub(crate) fn open(name: &str, id_member: &'static str, data_dir: &Path) -> io::Result<Self> {
        Self::open_file(name, id_member, &data_dir.join(format!("{name}.jsonl")))
    }

    /// The same, in a file of another name.
    pub(crate) fn open_file(name: &str, id_member: &'static str, file: &Path) -> io::Result<Self> {
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let storage = Storage::open(file)?;
        Ok(Self {
            name: name.to_owned(),
            id_member,
            storage: Mutex::new(storage),
        })
    }

    /// Makes a row whose id is known, unless it is there already.
    pub(crate) fn create(&self, id: &K, object: Object) -> Result<Response, Failure> {
        let mut storage = self.storage();
        if storage.get(id).is_some() {
            return Err(Failure::conflict(format!("{} already has {id}", self.name)));
        }
        self.make(&mut storage, id, object, None)
    }

    /// A page of the rows for which `wanted` is true.
    pub(crate) fn list(&self, page: &Page, wanted: impl Fn(&Object) -> bool) -> Result<Response, Failure>
    where
        K: FromStr,
    {
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
        let rows = storage.after(after).filter(|(_, row)| wanted(&row.object));
        let mut rows = rows.peekable();
        let mut items = Vec::new();
        let mut last = None;
        for (id, row) in rows.by_ref().take(limit) {
            items.push(self.shown(id, row));
            last = Some(id);
        }
        let mut answer = json!({ "items": items });
        if let (Some(id), Some(_)) = (last, rows.peek()) {
            answer["next"] = json!(id.to_string());
        }
        Ok(Json(answer).into_response())
    }

    pub(crate) fn get(&self, id: &K) -> Result<Response, Failure> {
        let storage = self.storage();
        let row = storage.get(id).ok_or_else(|| self.missing(id))?;
        Ok(self.answer(id, row))
    }

    /// Whether there is such a row.
    pub(crate) fn check(&self, id: &K) -> Result<(), Failure> {
        match self.storage().get(id) {
            Some(_) => Ok(()),
            None => Err(self.missing(id)),
        }
    }

    /// Replaces the row by what `change` makes of it.
    pub(crate) fn change(
        &self,
        id: &K,
        if_match: &IfMatch,
        change: impl FnOnce(&Object) -> Result<Object, Failure>,
    ) -> Result<Response, Failure> {
        let mut storage = self.storage();
        let row = storage.get(id).ok_or_else(|| self.missing(id))?;
        if_match.check(row.version)?;
        let mut object = change(&row.object)?;
        object.shift_remove(self.id_member);
        let row = storage.put(id.clone(), object, None)?;
        Ok(self.answer(id, &row))
    }

    pub(crate) fn delete(&self, id: &K, if_match: &IfMatch) -> Result<Response, Failure> {
        let mut storage = self.storage();
        let row = storage.get(id).ok_or_else(|| self.missing(id))?;
        if_match.check(row.version)?;
        storage.remove(id.clone())?;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Deletes all rows.
    pub(crate) fn clear(&self) -> Result<(), Failure> {
        let mut storage = self.storage();
        let ids: Vec<K> = storage.after(None).map(|(id, _)| id.clone()).collect();
        for id in ids {
            storage.remove(id)?;
        }
        Ok(())
    }

    fn make(
        &self,
        storage: &mut Storage<K>,
        id: &K,
        mut object: Object,
        key: Option<&str>,
    ) -> Result<Response, Failure> {
        object.shift_remove(self.id_member);
        let row = storage.put(id.clone(), object, key.map(str::to_owned))?;
        Ok(self.made(id, &row))
    }

    fn made(&self, id: &K, row: &Row) -> Response {
        let location = format!("/{}/{id}", self.name);
        let answer = self.answer(id, row);
        (StatusCode::CREATED, [(header::LOCATION, location)], answer).into_response()
    }

    fn answer(&self, id: &K, row: &Row) -> Response {
        ([(header::ETAG, etag(row.version))], Json(self.shown(id, row))).into_response()
    }

    /// The row with its id in front.
    fn shown(&self, id: &K, row: &Row) -> Value {
        let mut object = Object::from_iter([(self.id_member.to_owned(), json!(id))]);
        let members = row.object.iter();
        object.extend(members.map(|(name, value)| (name.clone(), value.clone())));
        Value::Object(object)
    }

    /// Rows are replaced whole, so a handler that panicked left nothing half done.
    fn storage(&self) -> MutexGuard<'_, Storage<K>> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self, id: &K) -> Failure {
        Failure::not_found(format!("{} has no {id}", self.name))
    }
}

impl Collection<u64> {
    /// Makes a row under the next id, at least `id_base`. A request that comes again with the key that
    /// its caller gave it makes no second row and is answered as it was the first time.
    pub(crate) fn create_next(
        &self,
        id_base: u64,
        object: Object,
        key: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut storage = self.storage();
        if let Some((id, row)) = key.and_then(|key| storage.made_under(key)) {
            return Ok(self.made(id, row));
        }
        let next = storage.last_id().map_or(0, |last| last.saturating_add(1));
        self.make(&mut storage, &next.max(id_base), object, key)
    }
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
