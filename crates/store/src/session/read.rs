use std::{collections::BTreeSet, fmt, ops::ControlFlow};

use super::Read;
use crate::{
    engine::{EngineError, KeyRange, Snapshot, Visit},
    error::Error,
    span::Span,
    table::{Index, IndexRows, Table},
};

/// A snapshot: what was committed when it was taken. As long as one is kept, the engine keeps what
/// has been replaced since, so it is held for the length of a request, not longer.
pub struct ReadSession(Box<dyn Snapshot>);

impl ReadSession {
    pub(crate) fn new(snapshot: Box<dyn Snapshot>) -> Self {
        Self(snapshot)
    }

    /// How many rows a table has. Reads none of them.
    pub fn count<T: Table>(&self) -> Result<u64, Error> {
        Ok(self.0.count(T::NAME)?)
    }

    /// How many entries an index has. Reads none of them.
    pub fn count_by<I: Index>(&self) -> Result<u64, Error> {
        Ok(self.0.count(I::NAME)?)
    }

    /// Compares a table with its indexes and says the first thing that does not fit. Reads all of
    /// both into memory: for tests and for an operator's check, not for a running agent.
    pub fn check_indexes<T: Table>(&self) -> Result<(), Error> {
        let mut expected = BTreeSet::new();
        self.for_each::<T>(&Span::all(), |key, value| {
            expected.extend(IndexRows::of::<T>(&key, &value));
            ControlFlow::Continue(())
        })?;
        let mut found = BTreeSet::new();
        for index in T::INDEXES {
            self.raw_scan(index, Span::all().range(), &mut |row, _| {
                found.insert((*index, row.to_vec()));
                ControlFlow::Continue(())
            })?;
        }
        match expected.symmetric_difference(&found).next() {
            None => Ok(()),
            Some((table, row)) => Err(Error::BadRow {
                table,
                reason: format!(
                    "{row:x?} is {} in the index",
                    if found.contains(&(*table, row.clone())) {
                        "too much"
                    } else {
                        "missing"
                    }
                ),
            }),
        }
    }
}

impl Read for ReadSession {
    fn raw_get(&self, table: &'static str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.0.get(table, key).map_err(EngineError::into)
    }

    fn raw_scan(&self, table: &'static str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), Error> {
        self.0.scan(table, range, visit).map_err(EngineError::into)
    }
}

impl fmt::Debug for ReadSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadSession")
    }
}
