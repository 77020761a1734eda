//! Operations of the set itself.

use cheops_types::SiteName;

use super::Step;
use crate::{
    Answer, Cause, Member, OpId, Operation, Outcome, Passage, Peer, Reason, Report, Standing, State, Verb,
    Want,
};

impl Step<'_> {
    /// Applies an operation that changes the set's record only.
    pub(super) fn note(&mut self, id: &OpId) {
        let Some(op) = self.set.entry(id).map(|entry| entry.op.clone()) else {
            return;
        };
        match &op.verb {
            Verb::Join { site, stay } => self.join(&op, site, *stay),
            Verb::Leave { site } => self.leave(&op, site),
            Verb::Expel { site } => self.expel(&op, site),
            Verb::Dismiss { loser } => {
                self.set.conflicts.remove(loser);
                self.set.dismissed.insert(loser.clone());
            }
            Verb::Forgo { lost } => {
                for op in lost {
                    self.forgone(op);
                }
            }
            _ => {}
        }
        self.conclude(id, Outcome::Noted);
    }

    /// The set goes on without an operation: whoever had executed it gets the reference's state.
    fn forgone(&mut self, op: &Operation) {
        self.conflict(op.clone(), Cause::Forgone);
        if !self.set.done.includes(&op.id) {
            self.set.forgone.insert(op.id.clone());
        }
        if let Some(entry) = self.set.entry_mut(&op.id)
            && entry.is_done()
        {
            entry.redo = false;
            entry.state = State::Done(Outcome::Lost);
        }
        self.set.want_comparison();
    }

    /// Whether the set has decided to go on without an operation.
    pub(super) fn is_forgone(&self, id: &OpId) -> bool {
        self.set.forgone.contains(id)
    }

    /// Whether this is the last word on the site's membership; concurrent ones are taken in order.
    fn passes(&mut self, op: &Operation, site: &SiteName, stay: Option<u32>) -> bool {
        let before = self.set.passages.get(site);
        if before.is_some_and(|passage| passage.rank > op.rank()) {
            return false;
        }
        let rank = op.rank();
        let passage = match (stay, before) {
            (Some(stay), _) => Passage {
                entered: Some(rank.clone()),
                rank,
                stay,
            },
            (None, Some(before)) => Passage {
                rank,
                ..before.clone()
            },
            (None, None) => Passage {
                rank,
                stay: 0,
                entered: None,
            },
        };
        self.set.passages.insert(site.clone(), passage);
        true
    }

    /// Whether the site has come in again after it was removed by `op`. Only that undoes a removal: a leave at
    /// the same time does not.
    fn has_returned_since(&self, op: &Operation, site: &SiteName) -> bool {
        let passage = self.set.passages.get(site);
        passage
            .and_then(|passage| passage.entered.as_ref())
            .is_some_and(|entered| *entered > op.rank())
    }

    fn join(&mut self, op: &Operation, site: &SiteName, stay: u32) {
        self.set.epoch = self.set.epoch.max(op.epoch);
        if !self.passes(op, site, Some(stay)) {
            return;
        }
        if let Some(member) = self
            .set
            .members
            .get_mut(site)
            .filter(|member| member.stay >= stay)
        {
            if member.stay == stay && member.leaving.take().is_some() {
                // It stays after all. It may have deleted its replica meanwhile.
                self.set.want_comparison();
            }
            return;
        }
        self.set.expelled.remove(site);
        let member = Member {
            stay,
            joined: Some(op.id.clone()),
            leaving: None,
        };
        self.set.members.insert(site.clone(), member);
        let is_sponsor = op.id.author.site == *self.here();
        let peer = Peer {
            needs_snapshot: true,
            want: is_sponsor.then_some(Want::Snapshot),
            ..Peer::default()
        };
        if site != self.here() {
            self.set.peers.insert(site.clone(), peer);
        }
    }

    fn leave(&mut self, op: &Operation, site: &SiteName) {
        if self.passes(op, site, None)
            && let Some(member) = self.set.members.get_mut(site)
        {
            member.leaving = Some(op.id.clone());
            if site == self.here() {
                // It goes only when another replica was found to be equal.
                self.set.want_comparison();
            }
        }
    }

    fn expel(&mut self, op: &Operation, site: &SiteName) {
        let epoch = op.epoch.saturating_add(1);
        self.set.epoch = self.set.epoch.max(epoch);
        self.passes(op, site, None);
        if self.has_returned_since(op, site) {
            return;
        }
        if site == self.here() {
            let after = op.after.clone();
            let others: Vec<_> = self.set.peers.values().map(|peer| peer.held.clone()).collect();
            let is_alone = |id: &OpId| !after.includes(id) && !others.iter().any(|held| held.includes(id));
            self.keep_as_conflicts(is_alone);
            self.set.standing = Standing::Expelled;
            return;
        }
        self.set.members.remove(site);
        self.set.peers.remove(site);
        self.set.expelled.insert(site.clone(), epoch);
    }

    /// A site that left in good order is gone once it has executed that and all it had is here.
    pub(super) fn release_members(&mut self) {
        let here = self.here().clone();
        let gone: Vec<_> = self
            .set
            .members
            .iter()
            .filter(|(site, member)| {
                let has_left = |peer: &Peer| peer.left && self.set.done.covers(&peer.held);
                **site != here && member.leaving.is_some() && self.set.peers.get(*site).is_some_and(has_left)
            })
            .map(|(site, _)| site.clone())
            .collect();
        for site in gone {
            self.set.members.remove(&site);
            self.set.peers.remove(&site);
        }
        if self.has_left() {
            self.set.standing = Standing::Left;
            // What was promised here has its end too.
            self.refuse_queue();
        }
    }

    /// Whether this site has executed its own leave, has no replica any more and nothing that others lack.
    fn has_left(&self) -> bool {
        let set = &*self.set;
        let me = set.members.get(self.here());
        let leave = me.and_then(|me| me.leaving.as_ref());
        let all_hold = || {
            let others = set.others(self.here());
            let holds = |site| {
                let peer = set.peers.get(site);
                let has_all = |peer: &Peer| {
                    let mut kept = set.log.values().map(|entry| &entry.op.id);
                    peer.held.covers(&set.held) && kept.all(|id| set.holds_whole(peer, id))
                };
                peer.is_some_and(has_all)
            };
            !others.is_empty() && others.iter().all(holds)
        };
        set.standing == Standing::Member
            && leave.is_some_and(|id| set.done.includes(id))
            && set.job.is_none()
            && set.local.is_none()
            && all_hold()
    }

    /// A site that counts itself out of the set says so about this one.
    pub(super) fn told_expelled(&mut self, epoch: u64, report: &Report) {
        let me = self.here().clone();
        let Some(member) = self.set.members.get(&me) else {
            return;
        };
        let has_left = member.leaving.as_ref().is_some_and(|leave| {
            report.done.includes(leave) && report.held.covers(&self.set.held) && self.set.local.is_none()
        });
        if has_left {
            self.set.standing = Standing::Left;
        } else if self.set.standing == Standing::Member && epoch > self.set.epoch {
            self.keep_as_conflicts(|id| !report.held.includes(id));
            self.set.standing = Standing::Expelled;
        }
    }

    /// Operations of this set that the others went on without.
    pub(super) fn keep_as_conflicts(&mut self, alone: impl Fn(&OpId) -> bool) {
        if self.set.standing == Standing::Member || self.set.yielded {
            self.count_unkept(&alone);
        }
        let mine: Vec<_> = self
            .set
            .log
            .values()
            .map(|entry| &entry.op)
            .filter(|op| op.verb.is_for_application() && alone(&op.id))
            .cloned()
            .collect();
        for op in mine {
            self.conflict(op, Cause::Expelled);
        }
        for draft in std::mem::take(&mut self.set.queue) {
            self.answer(draft.token, Answer::NotHere(Reason::NotMember));
        }
    }

    /// Of what this side has dropped, because sites of it had executed it and the log was full, nobody has the payload: that
    /// so many may be lost with this side is told.
    fn count_unkept(&mut self, alone: &impl Fn(&OpId) -> bool) {
        let mut unkept: u64 = 0;
        for (author, last) in self.set.pruned_writes.iter() {
            // The others have all up to a number.
            let (mut theirs, mut end) = (0, last);
            while theirs < end {
                let seq = theirs + (end - theirs).div_ceil(2);
                let author = author.clone();
                if alone(&OpId { author, seq }) {
                    end = seq - 1;
                } else {
                    theirs = seq;
                }
            }
            unkept = unkept.saturating_add(last - theirs);
        }
        self.set.conflicts_dropped = self.set.conflicts_dropped.saturating_add(unkept);
    }

    /// Another site's store has begun a new life: what was known of it no longer counts.
    pub(super) fn peer_reset(&mut self, site: &SiteName, incarnation: u64) {
        let Some(peer) = self.set.peers.get_mut(site) else {
            return;
        };
        if incarnation <= peer.incarnation {
            return;
        }
        // Of a set whose create is only about to execute here there is nothing to bring it.
        let has_begun = !self.set.held.is_empty();
        *peer = Peer {
            incarnation,
            needs_snapshot: has_begun,
            want: has_begun.then_some(Want::Snapshot),
            local: peer.local.take(),
            in_line: peer.in_line,
            ..Peer::default()
        };
        // It may have been the one that was about to compare them all.
        self.set.want_comparison();
    }
}
