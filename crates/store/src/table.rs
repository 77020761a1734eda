//! Tables and indexes, declared as types.

use serde::{Serialize, de::DeserializeOwned};

use crate::key::Key;

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
