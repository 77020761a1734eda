//! After a start, and when a site can be reached again.

use cheops_types::SiteName;

use super::Step;
use crate::{Content, Effect, Job, Peer, Phase, Standing, Want, Work};

impl Step<'_> {
    /// Effects of the last steps before the stop may be lost: everything that is needed is asked for again.
    pub(super) fn resume(&mut self) {
        // Of the others, nobody was told anything, and nobody waits any more.
        self.set.queue.retain(|draft| draft.promised);
        for peer in self.set.peers.values_mut() {
            peer.sent = peer.held.clone();
            peer.resend_ms = 0;
            peer.tries = 0;
        }
        self.tell_all();
        let has_begun = self.set.job.is_some() || self.set.install.is_some() || !self.set.queue.is_empty();
        if !has_begun && self.set.held.is_empty() {
            // Its create had not begun, and nobody waits for it.
            self.set.standing = Standing::Left;
            // What was promised may wait for it.
            self.moved();
            self.effects.push(Effect::Forget);
        }
        let now_ms = self.now_ms();
        let Some(job) = &mut self.set.job else {
            return;
        };
        if let Work::Accept {
            answered, promised, ..
        } = &mut job.work
        {
            // What a promised write came to is asked for later.
            *answered |= !*promised;
        }
        match (&job.work, job.phase) {
            (Work::Read, _) => self.set.job = None,
            (_, Phase::Running) => self.doubt(),
            (_, Phase::Looking | Phase::Confirming { .. }) => job.phase = Phase::Doubt { until_ms: now_ms },
            (_, Phase::Doubt { .. } | Phase::Stuck) => {}
            (_, Phase::Proposed { .. }) => self.propose_again(),
        }
    }

    /// Whether a doubt ends much later than it should: the clock was set forward, or the machine slept, and the
    /// application with it. It may not have had its time, which it gets once more, by the clock as it is now.
    pub(super) fn has_overslept(&mut self) -> bool {
        let (now_ms, settle_ms) = (self.now_ms(), self.context.tuning.settle_ms);
        match &mut self.set.job {
            Some(Job {
                phase: Phase::Doubt { until_ms },
                overslept,
                ..
            }) if !*overslept && now_ms > until_ms.saturating_add(settle_ms) => {
                *overslept = true;
                *until_ms = now_ms + settle_ms;
                true
            }
            _ => false,
        }
    }

    /// What is known of a member only grows; where that is wrong, it begins anew with the member's own word.
    pub(super) fn peer_unsure(&mut self, site: &SiteName) {
        // If it answers at all, no state has to be read for it.
        let resend_ms = self.now_ms() + self.context.tuning.resend_min_ms;
        let Some(peer) = self.set.peers.get_mut(site) else {
            return;
        };
        *peer = Peer {
            incarnation: peer.incarnation,
            age: peer.age,
            local: peer.local.take(),
            degraded: peer.degraded.take(),
            resend_ms,
            ..Peer::default()
        };
        if self.set.members.contains_key(site) {
            self.send(site, Content::Report, true);
        }
    }

    pub(super) fn peer_up(&mut self, site: &SiteName) {
        if let Some(peer) = self.set.peers.get_mut(site) {
            peer.sent = peer.held.clone();
            peer.resend_ms = 0;
            peer.tries = 0;
            let member = self.set.members.get(site);
            let joined = member.and_then(|member| member.joined.as_ref());
            if peer.needs_snapshot && joined.is_some_and(|join| join.author.site == *self.site.name()) {
                // This site let it in: it waits for nobody else to bring it the state.
                peer.want = peer.want.or(Some(Want::Snapshot));
            }
        }
        self.resume_comparison(site);
    }

    /// What was lost on the way to a member may be all that it waits for, also where it owes nothing here.
    ///
    /// ```text
    /// paris can reach rome again, rome cannot reach paris yet
    /// paris sends a write and asks how far rome is; rome executes it, and its answer is dropped
    /// to rome all is at rest; paris asks again at its next try, much later
    /// ```
    pub(super) fn peer_missed(&mut self, site: &SiteName) {
        if !self.set.members.contains_key(site) || site == self.here() {
            return;
        }
        self.peer_up(site);
        self.tell.insert(site.clone());
        self.tell_digest(site);
    }
}
