//! Operations that follow what nobody has any more.
//!
//! ```text
//! paris writes 5 and 6 and sends both to rome; 5 gets lost on the way. Then paris loses its disk.
//! rome holds 6, which comes after 5. No disk has 5: rome would wait for ever
//! ```
//!
//! The same goes for an operation whose payload is on no disk: only the one that is lost had it.
//!
//! When all members have said that they do not have it, the set goes on without what follows it, and every site keeps
//! that as a conflict.

use cheops_types::SiteName;

use super::Step;
use crate::{Content, Entry, OpId, Operation, Outcome, Peer, State, Vector};

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
        let mut silent = self.set.others(self.here());
        silent.retain(|site| !self.has_spoken(site, since_ms));
        for site in &silent {
            // Who has nothing else to say is asked.
            if self.set.peer(site).resend_ms <= now_ms {
                self.set.peer(site).resend_ms = now_ms + self.context.tuning.resend_min_ms;
                self.send(site, Content::Report, true);
            }
        }
        if silent.is_empty() && now_ms >= since_ms.saturating_add(pause_ms) {
            self.set.orphaned_ms = None;
            // What has executed once and cannot be put in its place again: another replica's state will do.
            let (done, open): (Vec<_>, Vec<_>) =
                orphans.into_iter().partition(|op| self.set.done.includes(&op.id));
            for op in done {
                if let Some(entry) = self.set.entry_mut(&op.id) {
                    entry.redo = false;
                }
                self.set.want_comparison();
            }
            if !open.is_empty() {
                self.forgo(open);
            }
        }
    }

    /// Whether a member has said what it holds since then.
    fn has_spoken(&self, site: &SiteName, since_ms: u64) -> bool {
        // One whose store is new, or that was let in since, has nothing, and says nothing before it was brought in: which may have
        // to wait for this.
        let is_new = |peer: &Peer| {
            let is_known = peer.incarnation != 0 || self.has_seen_enter(site);
            is_known && peer.needs_snapshot && peer.held.is_empty()
        };
        let has_said =
            |peer: &Peer| peer.incarnation != 0 && !peer.needs_snapshot && peer.heard_ms > since_ms;
        let peer = self.set.peers.get(site);
        peer.is_some_and(|peer| is_new(peer) || has_said(peer))
    }

    /// Whether this site knows from the operation itself, not from another one's state, that a member was let in.
    fn has_seen_enter(&self, site: &SiteName) -> bool {
        let member = self.set.members.get(site);
        let join = member.and_then(|member| self.set.entry(member.joined.as_ref()?));
        join.is_some_and(|join| join.state == State::Done(Outcome::Noted))
    }

    /// What is held here and follows something that no member holds.
    fn orphans(&self) -> Vec<Operation> {
        let set = &*self.set;
        if set.held == set.done && set.log.values().all(|entry| !entry.redo) {
            return Vec::new();
        }
        let mut somewhere: Vector = set.held.clone();
        for site in set.others(self.here()) {
            if let Some(peer) = set.peers.get(&site) {
                somewhere.join(&peer.held);
            }
        }
        // One that lacks many does not tell all of them: those it does not name it may have.
        let has = |peer: &Peer, id: &OpId| peer.held.includes(id) && !peer.bare.contains(id);
        let has_whole = |id: &OpId| set.peers.values().any(|peer| has(peer, id));
        let is_orphan = |entry: &&Entry| {
            // Of what has executed everywhere, the others have no payload any more.
            let is_empty = entry.bare && (entry.redo || !has_whole(&entry.op.id));
            (is_empty || !somewhere.covers(&entry.op.after)) && !self.is_forgone(&entry.op.id)
        };
        let waits = set.log.values().filter(|entry| entry.redo || !entry.is_done());
        waits.filter(is_orphan).map(|entry| entry.op.clone()).collect()
    }
}
