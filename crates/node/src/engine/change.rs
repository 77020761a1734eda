//! What one batch changes of one set, made on the engine's thread and written on the store's.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{LocalId, MetaId, Set};
use cheops_store::{
    Encoded, Error, PayloadHash, PayloadRef, WriteSession,
    tables::{self, OperationKey, SetRow},
};
use cheops_types::SiteName;

use crate::{
    caller, fetch,
    rows::{self, Conflicts, Head, Kept, Operations, Records, Sets},
};

/// A set in memory, and what is stored of it that is not plainly in it.
#[derive(Debug)]
pub(crate) struct LoadedSet {
    pub(super) kept: Kept,
    /// Whether the data plane knows of the set, and by which local id.
    pub(super) is_announced: bool,
    pub(super) announced: Option<LocalId>,
    /// Its record as it is stored, where that is known: what would be written the same is not written.
    stored: Option<Vec<u8>>,
    /// What look-ups read of it as it is stored, where that is known.
    row: Option<SetRow<Head>>,
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
    /// Written down already, on the engine's thread: without the log, and without a copy of it.
    record: Encoded<Records>,
    /// Where it has changed, or may have another key than it had.
    row: Option<SetRow<Head>>,
    /// Of the resource, where its local key begins with theirs.
    parents: Vec<String>,
    entries: Vec<Place>,
    needs: Diff<MetaId>,
    conflicts: Diff<OperationKey>,
    payloads: Diff<PayloadRef>,
    /// It is gone, and with it the names in it.
    frees_names: bool,
    /// Other sites give away the names in it.
    is_span_of_others: bool,
}

/// An entry of the log.
enum Place {
    Put(Encoded<Operations>),
    Gone((OperationKey, String)),
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
            stored: None,
            row: None,
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
            stored: None,
            row: None,
            payloads: BTreeMap::new(),
            conflicts: BTreeSet::new(),
        }
    }

    /// Remembers what is stored, before something happens to the set: it is as it was loaded, or was written last.
    pub(super) fn remember(&mut self, here: &SiteName) {
        if self.stored.is_none() {
            let unsettled = !self.kept.set.is_settled(here);
            // What cannot be written down counts as changed, and fails then.
            let encoded = self.encode(unsettled).ok();
            self.stored = encoded.map(|encoded| encoded.bytes().to_vec());
        }
    }

    fn encode(&mut self, unsettled: bool) -> Result<Encoded<Records>, Error> {
        let key = self.kept.set.record().meta.as_str().to_owned();
        let log = self.kept.set.take_log();
        let encoded = Records::encoded(key, unsettled, &self.kept);
        self.kept.set.give_log(log);
        encoded
    }

    /// What has to be written, if anything. From now on this counts as stored.
    pub(crate) fn change(&mut self, here: &SiteName) -> Result<Option<Change>, Error> {
        let changed = self.kept.set.drain_changes();
        self.kept.writer = caller::last_writer(&self.kept);
        let unsettled = !self.kept.set.is_settled(here);
        let needs = needs(&self.kept, unsettled);
        let needed = std::mem::replace(&mut self.kept.needs, needs);
        let record = self.encode(unsettled)?;
        if changed.is_empty() && self.stored.as_deref() == Some(record.bytes()) {
            return Ok(None);
        }
        let set = &self.kept.set;
        let meta = set.record().meta.clone();
        let entries = changed.iter().map(|rank| {
            let place = (rows::operation_key(rank), meta.as_str().to_owned());
            match set.entry_at(rank) {
                Some(entry) => Operations::encoded(place, rows::state_word(entry), entry).map(Place::Put),
                None => Ok(Place::Gone(place)),
            }
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let payloads = rows::payloads(set);
        let conflicts = set.conflicts().map(rows::conflict_key).collect();
        let parents = set.record().parents.clone();
        let row = rows::set_row(here, &self.kept);
        let is_same = parents.is_empty() && self.row.as_ref() == Some(&row);
        let span = &set.record().span;
        let prime = span.as_ref().map(|span| span.prime(set.members().keys()));
        let put = Put {
            row: (!is_same).then(|| row.clone()),
            parents,
            entries,
            needs: Diff::of(&needed, &self.kept.needs),
            conflicts: Diff::of(&self.conflicts, &conflicts),
            payloads: Diff {
                added: missing(&payloads, &self.payloads),
                removed: missing(&self.payloads, &payloads),
            },
            frees_names: span.is_some() && set.is_deleted(),
            is_span_of_others: prime.is_some_and(|prime| prime.as_ref() != Some(here)),
            meta,
            record,
        };
        self.stored = Some(put.record.bytes().to_vec());
        self.row = Some(row);
        self.payloads = payloads;
        self.conflicts = conflicts;
        Ok(Some(Change::Put(Box::new(put))))
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
        for place in self.entries {
            match place {
                Place::Put(row) => session.put_encoded(row)?,
                Place::Gone(place) => drop(session.delete::<Operations>(&place)?),
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
        if self.frees_names {
            rows::forget_names(session, &self.meta)?;
        }
        if self.is_span_of_others {
            // If it gives names away later, it has to wait anew.
            session.delete::<rows::Names>(&(key.clone(), String::new()))?;
        }
        if let Some(mut row) = self.row {
            if let Some(local) = row.head.local.as_ref().filter(|_| !self.parents.is_empty()) {
                row.local_key = rows::local_key(session, &self.parents, local)?;
            }
            session.put::<Sets>(&key, &row)?;
        }
        session.put_encoded(self.record)
    }
}
