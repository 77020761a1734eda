//! A set in parts, for a store that keeps each log entry as a row of its own.

use std::collections::BTreeSet;

use super::{Entry, Set, log::Log};
use crate::Rank;

/// The log of a set that was taken out of it.
#[derive(Debug)]
#[must_use]
pub struct LogAside(Log);

impl Set {
    /// Everything but the log. Together with [`Set::put_log`] it gives the set back.
    #[must_use]
    pub fn without_log(&self) -> Self {
        Self {
            log: Log::default(),
            record: self.record.clone(),
            epoch: self.epoch,
            standing: self.standing,
            members: self.members.clone(),
            expelled: self.expelled.clone(),
            passages: self.passages.clone(),
            local: self.local.clone(),
            recognise: self.recognise,
            birth: self.birth,
            born: self.born.clone(),
            degraded: self.degraded.clone(),
            deleted: self.deleted.clone(),
            creates: self.creates.clone(),
            buried: self.buried.clone(),
            held: self.held.clone(),
            done: self.done.clone(),
            pruned: self.pruned.clone(),
            pruned_writes: self.pruned_writes.clone(),
            last: self.last.clone(),
            time: self.time,
            begun: self.begun,
            conflicts: self.conflicts.clone(),
            conflicts_dropped: self.conflicts_dropped,
            forgone: self.forgone.clone(),
            dismissed: self.dismissed.clone(),
            peers: self.peers.clone(),
            job: self.job.clone(),
            queue: self.queue.clone(),
            promise_ms: self.promise_ms,
            promise_tries: self.promise_tries,
            division: self.division.clone(),
            fenced: self.fenced.clone(),
            install: self.install.clone(),
            renewal: self.renewal,
            check: self.check,
            compare_ms: self.compare_ms,
            compare_tries: self.compare_tries,
            digest_ms: self.digest_ms,
            digest: self.digest.clone(),
            repair: self.repair.clone(),
            reopens: self.reopens.clone(),
            orphaned_ms: self.orphaned_ms,
            executions_spent: self.executions_spent,
            life: self.life,
            is_weighed: self.is_weighed,
            unsettled_ms: self.unsettled_ms,
            unsettled_start: self.unsettled_start,
            is_inherited: self.is_inherited,
            yielded: self.yielded,
            decided: self.decided.clone(),
        }
    }

    /// Takes the log out, so that everything else can be written down without a copy. It must be given back before
    /// anything happens to the set.
    pub fn take_log(&mut self) -> LogAside {
        LogAside(std::mem::take(&mut self.log))
    }

    /// Gives back what [`Set::take_log`] has taken out.
    pub fn give_log(&mut self, log: LogAside) {
        self.log = log.0;
    }

    /// Puts the stored entries of the log back. They count as unchanged.
    pub fn put_log(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.log.restore(entry);
        }
    }

    /// The log in the order of the set, each entry with its place.
    pub fn entries(&self) -> impl Iterator<Item = (&Rank, &Entry)> {
        self.log.iter()
    }

    /// The entry at a place; none once it is gone.
    pub fn entry_at(&self, rank: &Rank) -> Option<&Entry> {
        self.log.at(rank)
    }

    /// The places of the entries that came, changed or went since the last call: what a store has to write,
    /// or to delete where [`Set::entry_at`] gives none.
    pub fn drain_changes(&mut self) -> BTreeSet<Rank> {
        self.log.drain_changes()
    }
}
