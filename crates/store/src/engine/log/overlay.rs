//! What one log holds, in memory: rows by table and key, in as many versions as open snapshots may still ask for.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use crate::engine::{KeyRange, merge::in_range};

/// None where the row is deleted.
pub(super) type Value = Option<Arc<[u8]>>;

pub(super) type Rows = BTreeMap<Vec<u8>, Value>;

#[derive(Debug, Default)]
pub(super) struct Overlay(RwLock<Tables>);

#[derive(Debug, Default)]
struct Tables {
    rows: HashMap<Box<str>, BTreeMap<Vec<u8>, Row>>,
    /// The last commit that is in it; 0 where none is.
    last: u64,
}

/// A row as commits have left it, each with the number of its commit.
#[derive(Debug)]
struct Row {
    newest: (u64, Value),
    /// Oldest first. Empty but where somebody reads at the same time.
    older: Vec<(u64, Value)>,
}

impl Overlay {
    /// Adds a commit. Snapshots of `oldest` and later are still read.
    pub(super) fn add<'a>(
        &self,
        number: u64,
        oldest: u64,
        changes: impl Iterator<Item = (&'a str, Vec<u8>, Value)>,
    ) {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        tables.last = number;
        for (table, key, value) in changes {
            let rows = match tables.rows.get_mut(table) {
                Some(rows) => rows,
                None => tables.rows.entry(table.into()).or_default(),
            };
            match rows.entry(key) {
                std::collections::btree_map::Entry::Occupied(row) => {
                    row.into_mut().put(number, oldest, value);
                }
                std::collections::btree_map::Entry::Vacant(row) => {
                    row.insert(Row {
                        newest: (number, value),
                        older: Vec::new(),
                    });
                }
            }
        }
    }

    /// The row as it was after a commit; none where the log says nothing of it.
    pub(super) fn get(&self, table: &str, key: &[u8], number: u64) -> Option<Value> {
        self.read().rows.get(table)?.get(key)?.at(number).cloned()
    }

    /// Lays the rows of a range over `rows`.
    pub(super) fn lay(&self, table: &str, range: KeyRange<'_>, number: u64, rows: &mut Rows) {
        if let Some(own) = self.read().rows.get(table) {
            for (key, row) in in_range(own, range) {
                if let Some(value) = row.at(number) {
                    rows.insert(key.clone(), value.clone());
                }
            }
        }
    }

    /// Every row as it is now, in the order of the keys.
    pub(super) fn for_each<E>(
        &self,
        mut visit: impl FnMut(&str, &[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let tables = self.read();
        for (table, rows) in &tables.rows {
            for (key, row) in rows {
                visit(table, key, row.newest.1.as_deref())?;
            }
        }
        Ok(())
    }

    pub(super) fn last(&self) -> u64 {
        self.read().last
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        // A row is changed by one assignment: a panic elsewhere leaves it whole.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn put(&mut self, number: u64, oldest: u64, value: Value) {
        let before = std::mem::replace(&mut self.newest, (number, value));
        if oldest < number {
            self.older.push(before);
            // The last one that the oldest snapshot sees is the first that is needed.
            let needed = self.older.iter().rposition(|(number, _)| *number <= oldest);
            drop(self.older.drain(..needed.unwrap_or(0)));
        } else {
            self.older.clear();
        }
    }

    fn at(&self, number: u64) -> Option<&Value> {
        if self.newest.0 <= number {
            return Some(&self.newest.1);
        }
        let seen = self.older.iter().rev().find(|(older, _)| *older <= number);
        seen.map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(overlay: &Overlay, number: u64, oldest: u64, value: Option<&[u8]>) {
        overlay.add(
            number,
            oldest,
            std::iter::once(("t", b"k".to_vec(), value.map(Arc::from))),
        );
    }

    /// What a commit left; nothing of it is `None`, a deleted row is `-`.
    fn get(overlay: &Overlay, number: u64) -> Option<Vec<u8>> {
        let value = overlay.get("t", b"k", number)?;
        Some(value.map_or(b"-".to_vec(), |value| value.to_vec()))
    }

    #[test]
    fn each_snapshot_sees_its_own_version() {
        let overlay = Overlay::default();
        put(&overlay, 3, 2, Some(b"3"));
        put(&overlay, 5, 2, None);
        put(&overlay, 6, 4, Some(b"6"));
        assert_eq!(get(&overlay, 2), None);
        assert_eq!(get(&overlay, 3), Some(b"3".to_vec()));
        assert_eq!(get(&overlay, 4), Some(b"3".to_vec()));
        assert_eq!(get(&overlay, 5), Some(b"-".to_vec()));
        assert_eq!(get(&overlay, 9), Some(b"6".to_vec()));
    }

    #[test]
    fn versions_that_nobody_reads_go() {
        let overlay = Overlay::default();
        for number in 1..100 {
            put(&overlay, number, number, Some(b"x"));
        }
        assert!(overlay.read().rows["t"][b"k".as_slice()].older.is_empty());
        put(&overlay, 100, 99, Some(b"y"));
        put(&overlay, 101, 99, Some(b"z"));
        assert_eq!(overlay.read().rows["t"][b"k".as_slice()].older.len(), 2);
        put(&overlay, 102, 101, Some(b"z"));
        assert_eq!(overlay.read().rows["t"][b"k".as_slice()].older.len(), 1);
    }
}
