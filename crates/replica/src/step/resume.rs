//! After a start, and when a site can be reached again.

use cheops_types::SiteName;

use super::Step;
use crate::{Effect, Phase, Standing, Work};

impl Step<'_> {
    /// Effects of the last steps before the stop may be lost: everything that is needed is asked for again.
    pub(super) fn resume(&mut self) {
        self.set.queue.clear();
        for peer in self.set.peers.values_mut() {
            peer.sent = peer.held.clone();
            peer.resend_ms = 0;
            peer.tries = 0;
        }
        self.tell_all();
        if self.set.job.is_none() && self.set.held.is_empty() && self.set.install.is_none() {
            // Its create had not begun, and nobody waits for it.
            self.set.standing = Standing::Left;
            self.effects.push(Effect::Forget);
        }
        let now_ms = self.now_ms();
        let Some(job) = &mut self.set.job else {
            return;
        };
        if let Work::Accept { answered, .. } = &mut job.work {
            *answered = true;
        }
        match (&job.work, job.phase) {
            (Work::Read, _) => self.set.job = None,
            (_, Phase::Running) => self.doubt(),
            (_, Phase::Looking) => job.phase = Phase::Doubt { until_ms: now_ms },
            (_, Phase::Doubt { .. } | Phase::Stuck) => {}
        }
    }

    pub(super) fn peer_up(&mut self, site: &SiteName) {
        if let Some(peer) = self.set.peers.get_mut(site) {
            peer.sent = peer.held.clone();
            peer.resend_ms = 0;
            peer.tries = 0;
        }
    }
}
