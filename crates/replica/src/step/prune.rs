//! What nobody needs any more.
//!
//! That an operation has executed everywhere is not enough to drop it. What arrives later may belong in front of it, and then it has to
//! execute again:
//!
//! ```text
//! p1 of paris has executed at paris, rome and lyon
//! r1 of rome was written before rome had heard of p1, comes before it in the order, and is still on its way to lyon
//! lyon drops p1, then r1 arrives: r1 executes last, and lyon differs from the others
//! ```
//!
//! So each site tells what it is *safe* from: nothing that it holds, and nothing that it will ever write, is concurrent with it. An
//! operation goes when all are safe from it, and nothing that waits here is concurrent with it.

use std::collections::BTreeSet;

use super::Step;
use crate::{Cause, Effect, OpId, Rank, Vector, Verb};

impl Step<'_> {
    /// Drops operations, with payload and credential, that are stable: executed everywhere, and nothing
    /// that can still arrive, or that waits here, is concurrent with them. The vectors keep recognising duplicates.
    pub(super) fn prune(&mut self) {
        let here = self.here().clone();
        if self.set.install.is_some() {
            return;
        }
        let others = self.set.others(&here);
        let nothing = Vector::new();
        let safe: Vec<_> = others
            .iter()
            .map(|site| self.set.peers.get(site).map_or(&nothing, |peer| &peer.safe))
            .collect();
        // A fence does not cover what the member wrote before its store was set back.
        let waiting = self.set.log.values().filter(|entry| !entry.is_done());
        let waiting: Vec<_> = waiting.map(|entry| &entry.op.after).collect();
        let stable: Vec<_> = self
            .set
            .log
            .iter()
            .filter(|(rank, entry)| {
                entry.is_done()
                    && (!entry.has_failed() || self.set.is_covered(&entry.op))
                    && !entry.redo
                    && safe.iter().all(|safe| safe.includes(&rank.id))
                    && waiting.iter().all(|after| after.includes(&rank.id))
            })
            .map(|(rank, _)| rank.clone())
            .collect();
        for rank in stable {
            self.drop_entry(&rank);
        }
        self.prune_backlog();
        self.forget_dismissed();
    }

    /// Beyond the bound, what only absent sites still need goes too: they get a snapshot. What no other
    /// site holds stays, whatever the bound: it was acknowledged.
    fn prune_backlog(&mut self) {
        let bytes: u64 = self.set.log.values().map(|entry| entry.op.bytes()).sum();
        let mut excess = bytes.saturating_sub(self.context.tuning.log_max_bytes);
        while excess > 0 {
            let Some((rank, entry)) = self.set.log.first() else {
                return;
            };
            let is_held = self
                .set
                .peers
                .values()
                .any(|peer| self.set.holds_whole(peer, &rank.id));
            if !entry.is_done() || entry.redo || !is_held {
                return;
            }
            let (rank, bytes) = (rank.clone(), entry.op.bytes());
            if entry.has_failed() && !self.set.is_covered(&entry.op) {
                self.conflict(entry.op.clone(), Cause::Bound);
            }
            self.drop_entry(&rank);
            excess = excess.saturating_sub(bytes);
        }
    }

    /// Forgets a resource that was deleted long ago. Nobody asks for it any more; only a store that is set back to a
    /// time before that would still speak of it, and bring it back.
    pub(super) fn expire(&mut self, before_ms: u64) {
        // A name may be made again, in the same set, whose numbers have to go on: it is remembered for good.
        if self.set.record.name.is_some() {
            return;
        }
        let is_old = self
            .set
            .deleted_ms()
            .is_some_and(|deleted_ms| deleted_ms < before_ms);
        let is_over = self.set.is_settled(self.site.name()) && self.set.local.is_none();
        if is_old && is_over && self.set.conflicts.is_empty() && self.set.log.values().next().is_none() {
            self.effects.push(Effect::Forget);
        }
    }

    /// That a conflict was dealt with has to be known as long as somebody may still find it: until its operation
    /// and the word that it was dismissed have executed everywhere. What is not here by then was written after that
    /// (`is_dismissed`).
    fn forget_dismissed(&mut self) {
        /// Of conflicts that the set itself has no operations of: those of sites that were removed.
        const DISMISSED_MAX: usize = 1_024;
        if self.set.dismissed.is_empty() {
            return;
        }
        let set = &*self.set;
        let told: BTreeSet<_> = set
            .log
            .values()
            .filter_map(|entry| match &entry.op.verb {
                Verb::Dismiss { loser } => Some(loser),
                _ => None,
            })
            .collect();
        let is_kept = |loser: &OpId| set.held.includes(loser) && !set.pruned.includes(loser);
        let is_open = |loser: &OpId| is_kept(loser) || told.contains(loser);
        let mut open: BTreeSet<_> = set
            .dismissed
            .iter()
            .filter(|loser| is_open(loser))
            .cloned()
            .collect();
        while open.len() > DISMISSED_MAX {
            open.pop_first();
        }
        if open.len() != self.set.dismissed.len() {
            self.set.dismissed = open;
        }
    }

    fn drop_entry(&mut self, rank: &Rank) {
        if self.set.pruned.precedes(&rank.id)
            && let Some(entry) = self.set.log.remove(rank)
        {
            self.set.pruned.advance(&rank.id);
            if entry.op.verb.is_for_application() {
                self.set.pruned_writes.raise(&rank.id);
            }
        }
    }
}
