//! Changed rows laid over rows that are stored, as one sequence in the order of the keys.

use std::{
    iter::Peekable,
    ops::{Bound, ControlFlow},
};

use super::{EngineError, KeyRange, Visit};

/// Visits what `scan` visits with `changed` laid over it: rows in the order of their keys, a value that is none deletes.
pub(crate) fn merged<K, V>(
    changed: impl Iterator<Item = (K, Option<V>)>,
    scan: impl FnOnce(&mut Visit<'_>) -> Result<(), EngineError>,
    visit: &mut Visit<'_>,
) -> Result<(), EngineError>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
{
    let mut merge = Merge {
        changed: changed.peekable(),
        visit,
        flow: ControlFlow::Continue(()),
    };
    scan(&mut |key, value| merge.stored(key, value))?;
    merge.rest();
    Ok(())
}

/// The rows of a map that are in a range.
pub(crate) fn in_range<'a, V>(
    rows: &'a std::collections::BTreeMap<Vec<u8>, V>,
    (from, to): KeyRange<'a>,
) -> impl Iterator<Item = (&'a Vec<u8>, &'a V)> {
    // Bounds are tested one by one: a map panics when they are the wrong way round.
    rows.range::<[u8], _>((from, Bound::Unbounded))
        .take_while(move |(key, _)| match to {
            Bound::Included(to) => key.as_slice() <= to,
            Bound::Excluded(to) => key.as_slice() < to,
            Bound::Unbounded => true,
        })
}

struct Merge<'a, 'v, C: Iterator> {
    changed: Peekable<C>,
    visit: &'a mut Visit<'v>,
    flow: ControlFlow<()>,
}

impl<K, V, C> Merge<'_, '_, C>
where
    K: AsRef<[u8]>,
    V: AsRef<[u8]>,
    C: Iterator<Item = (K, Option<V>)>,
{
    fn stored(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        while let Some((changed, new)) = self.changed.next_if(|(changed, _)| changed.as_ref() <= key) {
            if let Some(new) = &new {
                self.flow = (self.visit)(changed.as_ref(), new.as_ref());
            }
            // The change replaces the stored row, which is therefore done.
            if self.flow.is_break() || changed.as_ref() == key {
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
                self.flow = (self.visit)(key.as_ref(), new.as_ref());
            }
        }
    }
}
