use std::{
    collections::BTreeMap,
    fmt,
    iter::Peekable,
    ops::{Bound, ControlFlow},
};

use super::{Read, decode};
use crate::{
    engine::{Batch, EngineError, KeyRange, Visit},
    error::Error,
    key::Key,
    table::{IndexRows, Table},
    value,
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
        let key_bytes = key.to_bytes();
        let bytes = value::encode(value).map_err(|error| Error::bad_value(T::NAME, &error))?;
        let old = self.raw_get(T::NAME, &key_bytes)?;
        if old.as_ref() == Some(&bytes) {
            return Ok(());
        }
        let before = index_rows::<T>(key, old.as_deref())?;
        let after = IndexRows::of::<T>(key, value);
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
        Some(value) if !T::INDEXES.is_empty() => Ok(IndexRows::of::<T>(key, &decode::<T>(value)?)),
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
                    None => {
                        batch.delete(table, &key)?;
                    }
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
        let mut merge = Merge {
            changed: in_range(changes, range).peekable(),
            visit,
            flow: ControlFlow::Continue(()),
        };
        self.batch
            .scan(table, range, &mut |key, value| merge.stored(key, value))?;
        merge.rest();
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

/// Rows of the batch and changes of the session, as one sequence in the order of the keys.
struct Merge<'a, 'v, C: Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>> {
    changed: Peekable<C>,
    visit: &'a mut Visit<'v>,
    flow: ControlFlow<()>,
}

impl<'a, C: Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>> Merge<'a, '_, C> {
    fn stored(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        while let Some((changed, new)) = self.changed.next_if(|(changed, _)| changed.as_slice() <= key) {
            self.flow = new
                .as_ref()
                .map_or(ControlFlow::Continue(()), |new| (self.visit)(changed, new));
            // The change replaces the stored row, which is therefore done.
            if self.flow.is_break() || changed == key {
                return self.flow;
            }
        }
        self.flow = (self.visit)(key, value);
        self.flow
    }

    fn rest(mut self) {
        while self.flow.is_continue() {
            let Some((key, new)) = self.changed.next() else {
                return;
            };
            if let Some(new) = new {
                self.flow = (self.visit)(key, new);
            }
        }
    }
}

fn in_range<'a>(
    changes: &'a Changes,
    (from, to): KeyRange<'a>,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)> {
    // Bounds are tested one by one: a map panics when they are the wrong way round.
    changes
        .range::<[u8], _>((from, Bound::Unbounded))
        .take_while(move |(key, _)| match to {
            Bound::Included(to) => key.as_slice() <= to,
            Bound::Excluded(to) => key.as_slice() < to,
            Bound::Unbounded => true,
        })
}
