//! The operations that a site keeps of a set.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeFrom,
};

use cheops_types::Stamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Entry;
use crate::{OpId, Rank};

/// The kept operations in the order of the set, found by id too.
///
/// It remembers which entries have changed, so that a store that keeps each as a row of its own writes no
/// others. That memory is no part of the set's state: it is neither compared nor written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    entries: BTreeMap<Rank, Entry>,
    times: BTreeMap<OpId, Stamp>,
    changed: BTreeSet<Rank>,
}

impl Log {
    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.values()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Rank, &Entry)> {
        self.entries.iter()
    }

    pub(crate) fn range(&self, from: RangeFrom<&Rank>) -> impl Iterator<Item = &Entry> {
        self.entries.range(from).map(|(_, entry)| entry)
    }

    pub(crate) fn first(&self) -> Option<(&Rank, &Entry)> {
        self.entries.first_key_value()
    }

    pub(crate) fn at(&self, rank: &Rank) -> Option<&Entry> {
        self.entries.get(rank)
    }

    pub(crate) fn get(&self, id: &OpId) -> Option<&Entry> {
        self.entries.get(&self.rank(id)?)
    }

    /// The entry, which counts as changed from now on.
    pub(crate) fn get_mut(&mut self, id: &OpId) -> Option<&mut Entry> {
        let rank = self.rank(id)?;
        let entry = self.entries.get_mut(&rank);
        self.changed.insert(rank);
        entry
    }

    /// Changes the entries for which `change` says that it did.
    pub(crate) fn change(&mut self, mut change: impl FnMut(&mut Entry) -> bool) {
        for (rank, entry) in &mut self.entries {
            if change(entry) {
                self.changed.insert(rank.clone());
            }
        }
    }

    pub(crate) fn insert(&mut self, entry: Entry) {
        let rank = entry.op.rank();
        self.changed.insert(rank.clone());
        self.put(rank, entry);
    }

    /// Inserts an entry that is stored already.
    pub(crate) fn restore(&mut self, entry: Entry) {
        self.put(entry.op.rank(), entry);
    }

    fn put(&mut self, rank: Rank, entry: Entry) {
        self.times.insert(rank.id.clone(), rank.time);
        self.entries.insert(rank, entry);
    }

    pub(crate) fn remove(&mut self, rank: &Rank) -> Option<Entry> {
        let entry = self.entries.remove(rank)?;
        self.times.remove(&rank.id);
        self.changed.insert(rank.clone());
        Some(entry)
    }

    pub(crate) fn clear(&mut self) {
        self.changed.extend(std::mem::take(&mut self.entries).into_keys());
        self.times.clear();
    }

    /// The ranks of entries that came, changed or went since the last call.
    pub(crate) fn drain_changes(&mut self) -> BTreeSet<Rank> {
        std::mem::take(&mut self.changed)
    }

    fn rank(&self, id: &OpId) -> Option<Rank> {
        let time = *self.times.get(id)?;
        Some(Rank { time, id: id.clone() })
    }
}

impl FromIterator<Entry> for Log {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let mut log = Self::default();
        entries.into_iter().for_each(|entry| log.restore(entry));
        log
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Log {}

impl Serialize for Log {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries.values())
    }
}

impl<'de> Deserialize<'de> for Log {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Entry>::deserialize(deserializer).map(Self::from_iter)
    }
}
