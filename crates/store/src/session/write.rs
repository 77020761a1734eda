use std::{collections::BTreeMap, fmt};

use super::Read;
use crate::{
    engine::{
        Batch, EngineError, KeyRange, Visit,
        merge::{in_range, merged},
    },
    error::Error,
    key::Key,
    table::{Encoded, IndexRows, Table},
    value::{self, BadValue},
};

/// What a session has changed in one table: a new value, or none where the row is deleted.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes that are kept as a whole or not at all. It sees its own changes and those of the sessions
/// before it. They stay beside the batch until the session has ended well, so that one that fails
/// leaves nothing behind in the commit it shares with others.
pub struct WriteSession<'a> {
    batch: &'a dyn Batch,
    changes: BTreeMap<&'static str, Changes>,
}

/// The changes of a session that ended well.
pub(crate) struct Changed(BTreeMap<&'static str, Changes>);

impl<'a> WriteSession<'a> {
    pub(crate) fn new(batch: &'a dyn Batch) -> Self {
        Self {
            batch,
            changes: BTreeMap::new(),
        }
    }

    pub(crate) fn end(self) -> Changed {
        Changed(self.changes)
    }

    /// A row that is already like that is not written again, nor are its rows in the indexes.
    pub fn put<T: Table>(&mut self, key: &T::Key, value: &T::Value) -> Result<(), Error> {
        self.put_row::<T>(key, key.to_bytes(), value::encode(value), || {
            IndexRows::of::<T>(key, value)
        })
    }

    /// The same for a row that was written down before: on another thread, so that this one is free for what others wait for.
    pub fn put_encoded<T: Table>(&mut self, row: Encoded<T>) -> Result<(), Error> {
        let (key, key_bytes, bytes, rows) = row.into_parts();
        self.put_row::<T>(&key, key_bytes, Ok(bytes), || rows)
    }

    fn put_row<T: Table>(
        &mut self,
        key: &T::Key,
        key_bytes: Vec<u8>,
        bytes: Result<Vec<u8>, BadValue>,
        rows: impl FnOnce() -> Vec<(&'static str, Vec<u8>)>,
    ) -> Result<(), Error> {
        let bytes = bytes.map_err(|error| Error::bad_value(T::NAME, &error))?;
        let old = self.raw_get(T::NAME, &key_bytes)?;
        if old.as_ref() == Some(&bytes) {
            return Ok(());
        }
        let (before, after) = (index_rows::<T>(key, old.as_deref())?, rows());
        for (index, row) in before.iter().filter(|row| !after.contains(row)) {
            self.change(index, row.clone(), None);
        }
        for (index, row) in after.into_iter().filter(|row| !before.contains(row)) {
            self.change(index, row, Some(Vec::new()));
        }
        self.change(T::NAME, key_bytes, Some(bytes));
        Ok(())
    }

    /// Whether the row was there.
    pub fn delete<T: Table>(&mut self, key: &T::Key) -> Result<bool, Error> {
        let key_bytes = key.to_bytes();
        let Some(old) = self.raw_get(T::NAME, &key_bytes)? else {
            return Ok(false);
        };
        for (index, row) in index_rows::<T>(key, Some(&old))? {
            self.change(index, row, None);
        }
        self.change(T::NAME, key_bytes, None);
        Ok(true)
    }

    pub(crate) fn change(&mut self, table: &'static str, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.changes.entry(table).or_default().insert(key, value);
    }
}

/// The rows that a stored value has in the indexes.
fn index_rows<T: Table>(key: &T::Key, value: Option<&[u8]>) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    match value {
        Some(value) if !T::INDEXES.is_empty() => {
            let rows = IndexRows::of_stored::<T>(key, value);
            rows.map_err(|error| Error::bad_value(T::NAME, &error))
        }
        _ => Ok(Vec::new()),
    }
}

impl Changed {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn apply(self, batch: &mut dyn Batch) -> Result<(), EngineError> {
        for (table, changes) in self.0 {
            for (key, value) in changes {
                match value {
                    Some(value) => batch.put(table, &key, &value)?,
                    None => batch.delete(table, &key)?,
                }
            }
        }
        Ok(())
    }
}

impl Read for WriteSession<'_> {
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match self.changes.get(table).and_then(|changes| changes.get(key)) {
            Some(changed) => Ok(changed.clone()),
            None => Ok(self.batch.get(table, key)?),
        }
    }

    fn raw_scan(&self, table: &'static str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), Error> {
        let Some(changes) = self.changes.get(table) else {
            return Ok(self.batch.scan(table, range, visit)?);
        };
        let changed = in_range(changes, range).map(|(key, value)| (key, value.as_ref()));
        merged(changed, |visit| self.batch.scan(table, range, visit), visit)?;
        Ok(())
    }
}

impl fmt::Debug for WriteSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteSession")
            .field("tables", &self.changes.keys())
            .finish()
    }
}
