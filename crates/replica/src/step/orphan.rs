//! Operations that follow what nobody has any more.
//!
//! ```text
//! paris writes 5 and 6 and sends both to rome; 5 gets lost on the way. Then paris loses its disk.
//! rome holds 6, which comes after 5. No disk has 5: rome would wait for ever
//! ```
//!
//! When all members have said that they do not have it, the set goes on without what follows it, and every site keeps
//! that as a conflict.

use super::Step;
use crate::{Operation, Vector};

impl Step<'_> {
    /// Gives up what waits for an operation that no member has, once all of them have been heard since it was found.
    pub(super) fn give_up_orphans(&mut self) {
        let orphans = self.orphans();
        if orphans.is_empty() {
            self.set.orphaned_ms = None;
            return;
        }
        let now_ms = self.now_ms();
        let since_ms = *self.set.orphaned_ms.get_or_insert(now_ms);
        // One site is enough; the others wait longer, in case that one is not there.
        let mut members = self.set.members.keys();
        let turn = members.position(|site| site == self.site.name()).unwrap_or(0);
        let pause_ms = 2 * self.context.tuning.resend_max_ms * (turn as u64 + 1);
        let all_spoke = self.set.others(self.here()).iter().all(|site| {
            let peer = self.set.peers.get(site);
            peer.is_some_and(|peer| peer.incarnation != 0 && !peer.needs_snapshot && peer.heard_ms > since_ms)
        });
        if all_spoke && now_ms >= since_ms.saturating_add(pause_ms) {
            self.set.orphaned_ms = None;
            self.forgo(orphans);
        }
    }

    /// What is held here and follows something that no member holds.
    fn orphans(&self) -> Vec<Operation> {
        let set = &*self.set;
        if set.held == set.done {
            return Vec::new();
        }
        let mut somewhere: Vector = set.held.clone();
        for site in set.others(self.here()) {
            if let Some(peer) = set.peers.get(&site) {
                somewhere.join(&peer.held);
            }
        }
        let waits = set.log.values().filter(|entry| !entry.is_done());
        let is_orphan = |op: &&Operation| !somewhere.covers(&op.after) && !self.is_forgone(&op.id);
        waits.map(|entry| &entry.op).filter(is_orphan).cloned().collect()
    }
}
