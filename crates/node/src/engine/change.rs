//! What one batch changes of one set, made on the engine's thread and written on the store's.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Entry, LocalId, MetaId, Set};
use cheops_store::{
    Error, PayloadHash, PayloadRef, WriteSession,
    tables::{self, OperationKey, OperationRow, RecordRow},
};
use cheops_types::SiteName;

use crate::{
    caller, fetch,
    rows::{self, Conflicts, Kept, Operations, Records, Sets},
};

/// A set in memory, and what is stored of it that is not plainly in it.
#[derive(Debug)]
pub(crate) struct LoadedSet {
    pub(super) kept: Kept,
    /// Whether the data plane knows of the set, and by which local id.
    pub(super) is_announced: bool,
    pub(super) announced: Option<LocalId>,
    payloads: BTreeMap<PayloadHash, PayloadRef>,
    conflicts: BTreeSet<OperationKey>,
}

/// Only what differs from what is stored.
pub(crate) enum Change {
    Put(Box<Put>),
    Forget { meta: MetaId, payloads: Vec<PayloadRef> },
}

pub(crate) struct Put {
    meta: MetaId,
    here: SiteName,
    /// Without the log.
    kept: Kept,
    unsettled: bool,
    entries: Vec<(OperationKey, Option<OperationRow<Entry>>)>,
    needs: Diff<MetaId>,
    conflicts: Diff<OperationKey>,
    payloads: Diff<PayloadRef>,
}

struct Diff<T> {
    added: Vec<T>,
    removed: Vec<T>,
}

impl LoadedSet {
    /// As it was loaded.
    pub(super) fn stored(kept: Kept) -> Self {
        Self {
            payloads: rows::payloads(&kept.set),
            conflicts: kept.set.conflicts().map(rows::conflict_key).collect(),
            is_announced: true,
            announced: kept.set.local().cloned(),
            kept,
        }
    }

    /// Nothing of it is stored yet. `begins` where this is its create, not a state that another site has sent.
    pub(crate) fn new(run: u64, incarnation: u64, set: Set, begins: bool) -> Self {
        Self {
            kept: Kept {
                run,
                incarnation,
                begun: begins.then_some(incarnation),
                needs: BTreeSet::new(),
                set,
                writer: None,
            },
            is_announced: false,
            announced: None,
            payloads: BTreeMap::new(),
            conflicts: BTreeSet::new(),
        }
    }

    /// What has to be written, if anything, when `before` is stored without its log. From now on this counts
    /// as stored.
    pub(crate) fn change(&mut self, before: Option<&Kept>, here: &SiteName) -> Option<Change> {
        let changed = self.kept.set.drain_changes();
        self.kept.writer = caller::last_writer(&self.kept);
        let kept = self.kept.without_log();
        if changed.is_empty() && before == Some(&kept) {
            return None;
        }
        let set = &self.kept.set;
        let entries = changed
            .iter()
            .map(|rank| {
                let row = set.entry_at(rank).map(|entry| OperationRow {
                    state: rows::state_word(entry).to_owned(),
                    record: entry.clone(),
                });
                (rows::operation_key(rank), row)
            })
            .collect();
        let payloads = rows::payloads(set);
        let conflicts = set.conflicts().map(rows::conflict_key).collect();
        let unsettled = !set.is_settled(here);
        let needs = needs(&self.kept, unsettled);
        let put = Put {
            meta: set.record().meta.clone(),
            here: here.clone(),
            unsettled,
            entries,
            needs: Diff::of(&self.kept.needs, &needs),
            conflicts: Diff::of(&self.conflicts, &conflicts),
            payloads: Diff {
                added: missing(&payloads, &self.payloads),
                removed: missing(&self.payloads, &payloads),
            },
            kept: Kept {
                needs: needs.clone(),
                ..kept
            },
        };
        self.kept.needs = needs;
        self.payloads = payloads;
        self.conflicts = conflicts;
        Some(Change::Put(Box::new(put)))
    }

    /// The set came to nothing.
    pub(super) fn forget(self) -> Change {
        Change::Forget {
            meta: self.kept.set.record().meta.clone(),
            payloads: self.payloads.into_values().collect(),
        }
    }
}

/// Who has waited for whom matters until the resource is gone everywhere: then it holds up nobody.
fn needs(kept: &Kept, unsettled: bool) -> BTreeSet<MetaId> {
    if kept.set.is_deleted() && !unsettled {
        return BTreeSet::new();
    }
    let logged = kept.set.log().map(|entry| &entry.op.needs);
    let queued = kept.set.queue().map(|draft| &draft.needs);
    let wanted = logged.chain(queued).flatten().map(|need| need.set.clone());
    kept.needs.iter().cloned().chain(wanted).collect()
}

impl<T: Ord + Clone> Diff<T> {
    fn of(before: &BTreeSet<T>, after: &BTreeSet<T>) -> Self {
        Self {
            added: after.difference(before).cloned().collect(),
            removed: before.difference(after).cloned().collect(),
        }
    }
}

fn missing(
    from: &BTreeMap<PayloadHash, PayloadRef>,
    other: &BTreeMap<PayloadHash, PayloadRef>,
) -> Vec<PayloadRef> {
    from.iter()
        .filter(|(hash, _)| !other.contains_key(hash))
        .map(|(_, payload)| *payload)
        .collect()
}

impl Change {
    pub(crate) fn apply(self, session: &mut WriteSession<'_>) -> Result<(), Error> {
        match self {
            Self::Put(put) => put.apply(session),
            Self::Forget { meta, payloads } => {
                for payload in payloads {
                    fetch::release(session, &meta, &payload)?;
                }
                rows::forget(session, &meta)
            }
        }
    }
}

impl Put {
    fn apply(self, session: &mut WriteSession<'_>) -> Result<(), Error> {
        let key = self.meta.as_str().to_owned();
        for (place, row) in self.entries {
            let place = (place, key.clone());
            match row {
                Some(row) => session.put::<Operations>(&place, &row)?,
                None => {
                    session.delete::<Operations>(&place)?;
                }
            }
        }
        for needed in self.needs.added {
            session.put::<tables::Needs>(&(needed.as_str().to_owned(), key.clone()), &())?;
        }
        for needed in self.needs.removed {
            session.delete::<tables::Needs>(&(needed.as_str().to_owned(), key.clone()))?;
        }
        for place in self.conflicts.added {
            session.put::<Conflicts>(&(key.clone(), place), &())?;
        }
        for place in self.conflicts.removed {
            session.delete::<Conflicts>(&(key.clone(), place))?;
        }
        for payload in self.payloads.added {
            fetch::retain(session, &self.meta, &payload)?;
        }
        for payload in self.payloads.removed {
            fetch::release(session, &self.meta, &payload)?;
        }
        if self.kept.set.record().span.is_some() && self.kept.set.is_deleted() {
            rows::forget_names(session, &self.meta)?;
        }
        if let Some(span) = &self.kept.set.record().span
            && span.prime(self.kept.set.members().keys()).as_ref() != Some(&self.here)
        {
            // If it gives names away later, it has to wait anew.
            session.delete::<rows::Names>(&(key.clone(), String::new()))?;
        }
        let row = rows::set_row(session, &self.here, &self.kept)?;
        session.put::<Sets>(&key, &row)?;
        let row = RecordRow {
            unsettled: self.unsettled,
            record: self.kept,
        };
        session.put::<Records>(&key, &row)
    }
}
