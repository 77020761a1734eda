//! Tables and indexes, declared as types.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::Error,
    key::Key,
    value::{self, BadValue},
};

/// A table: its name in the store, what its rows are, and which indexes find them.
pub trait Table {
    /// Part of the format: never reused for something else.
    const NAME: &'static str;
    /// The names of all indexes that `index` adds to.
    const INDEXES: &'static [&'static str] = &[];
    type Key: Key;
    type Value: Serialize + DeserializeOwned;

    /// Adds the index keys of a row. A pure function: the rows of an index are found again, to be
    /// deleted, by calling it with the value that is replaced.
    fn index(key: &Self::Key, value: &Self::Value, rows: &mut IndexRows) {
        let _ = (key, value, rows);
    }

    /// The same for a value as it is stored. A table whose values are long reads of it only what its indexes need.
    #[doc(hidden)]
    fn index_stored(key: &Self::Key, value: &[u8], rows: &mut IndexRows) -> Result<(), BadValue> {
        Self::index(key, &value::decode(value)?, rows);
        Ok(())
    }
}

/// An index of a table: from a key of its own to the keys of the table. Several rows may have the
/// same index key.
pub trait Index {
    const NAME: &'static str;
    type Table: Table;
    type Key: Key;
}

/// The rows that one record has in the indexes of its table.
#[derive(Debug)]
pub struct IndexRows {
    primary: Vec<u8>,
    rows: Vec<(&'static str, Vec<u8>)>,
}

impl IndexRows {
    pub(crate) fn of<T: Table>(key: &T::Key, value: &T::Value) -> Vec<(&'static str, Vec<u8>)> {
        let mut rows = Self {
            primary: key.to_bytes(),
            rows: Vec::new(),
        };
        T::index(key, value, &mut rows);
        rows.rows
    }

    /// Of a value as it is stored.
    pub(crate) fn of_stored<T: Table>(
        key: &T::Key,
        value: &[u8],
    ) -> Result<Vec<(&'static str, Vec<u8>)>, BadValue> {
        let mut rows = Self {
            primary: key.to_bytes(),
            rows: Vec::new(),
        };
        T::index_stored(key, value, &mut rows)?;
        Ok(rows.rows)
    }

    /// Lets the record be found by `key` in the index `I`.
    pub fn add<I: Index>(&mut self, key: &I::Key) {
        debug_assert!(
            <I::Table as Table>::INDEXES.contains(&I::NAME),
            "the index {} is not declared by its table",
            I::NAME
        );
        let mut row = key.to_bytes();
        row.extend(&self.primary);
        self.rows.push((I::NAME, row));
    }
}

/// A row that is written down already.
pub struct Encoded<T: Table> {
    key: T::Key,
    key_bytes: Vec<u8>,
    bytes: Vec<u8>,
    index_rows: Vec<(&'static str, Vec<u8>)>,
}

impl<T: Table> Encoded<T> {
    /// With a value that is written like one of the table's, and how the indexes find it.
    pub(crate) fn new(
        key: T::Key,
        value: &impl Serialize,
        index: impl FnOnce(&T::Key, &mut IndexRows),
    ) -> Result<Self, Error> {
        let bytes = value::encode(value).map_err(|error| Error::bad_value(T::NAME, &error))?;
        let key_bytes = key.to_bytes();
        let mut rows = IndexRows {
            primary: key_bytes.clone(),
            rows: Vec::new(),
        };
        index(&key, &mut rows);
        Ok(Self {
            key,
            key_bytes,
            bytes,
            index_rows: rows.rows,
        })
    }

    /// The value as it will be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[allow(clippy::type_complexity)] // taken apart at once
    pub(crate) fn into_parts(self) -> (T::Key, Vec<u8>, Vec<u8>, Vec<(&'static str, Vec<u8>)>) {
        (self.key, self.key_bytes, self.bytes, self.index_rows)
    }
}

impl<T: Table> fmt::Debug for Encoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded")
            .field("table", &T::NAME)
            .finish_non_exhaustive()
    }
}
