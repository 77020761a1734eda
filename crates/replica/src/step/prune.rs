//! What nobody needs any more.

use super::Step;
use crate::{Cause, Rank, Vector};

impl Step<'_> {
    /// Drops operations, with payload and credential, that are stable: executed everywhere, and nothing
    /// that can still arrive is concurrent with them. The vectors keep recognising duplicates.
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
        let stable: Vec<_> = self
            .set
            .log
            .iter()
            .filter(|(rank, entry)| {
                entry.is_done()
                    && (!entry.has_failed() || self.set.is_covered(&entry.op))
                    && !entry.redo
                    && safe.iter().all(|safe| safe.includes(&rank.id))
            })
            .map(|(rank, _)| rank.clone())
            .collect();
        for rank in stable {
            self.drop_entry(&rank);
        }
        self.prune_backlog();
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
