//! Times that this set waits for, on this site's wall clock.

use super::{Phase, Set};
use crate::Tuning;

impl Set {
    /// A wall clock that was ahead and is right again would let everything wait for the time that it once
    /// showed. No pause is longer than the longest that could begin now.
    pub(crate) fn shorten_pauses(&mut self, now_ms: u64, tuning: &Tuning) {
        let retry_ms = now_ms.saturating_add(tuning.retry_max_ms.max(tuning.blocked_retry_ms));
        let resend_ms = now_ms.saturating_add(tuning.resend_max_ms);
        self.compare_ms = self.compare_ms.min(resend_ms);
        self.promise_ms = self.promise_ms.min(retry_ms);
        self.unsettled_ms = self.unsettled_ms.min(now_ms.saturating_add(tuning.settle_ms));
        for peer in self.peers.values_mut() {
            peer.resend_ms = peer.resend_ms.min(resend_ms);
            // A word of a time that has not come yet would count for all that is asked until then.
            peer.heard_ms = peer.heard_ms.min(now_ms);
        }
        self.orphaned_ms = self.orphaned_ms.map(|since_ms| since_ms.min(now_ms));
        if let Some(install) = &mut self.install {
            install.until_ms = install.until_ms.min(retry_ms);
        }
        if let Some(job) = &mut self.job
            && let Phase::Doubt { until_ms } = &mut job.phase
        {
            *until_ms = (*until_ms).min(now_ms.saturating_add(tuning.settle_ms.max(tuning.retry_max_ms)));
        }
        self.log.change(|entry| {
            let is_long = entry.until_ms > retry_ms;
            entry.until_ms = entry.until_ms.min(retry_ms);
            is_long
        });
    }
}
