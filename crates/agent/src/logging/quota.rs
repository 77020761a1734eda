//! How many lines of each kind were written lately.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cheops_types::{Limit, Limits};
use tracing::callsite::Identifier;

const WINDOW: Duration = Duration::from_secs(10);

/// A kind is a place in the code, of which there are few.
pub(super) struct Quotas {
    kinds: Mutex<Vec<(Identifier, Quota)>>,
    /// 0 until it is set: the default.
    max: AtomicU64,
}

/// What one kind has written.
#[derive(Debug)]
struct Quota {
    since: Instant,
    lines: u64,
    left_out: u64,
}

impl Quotas {
    pub(super) const fn new() -> Self {
        Self {
            kinds: Mutex::new(Vec::new()),
            max: AtomicU64::new(0),
        }
    }

    pub(super) fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Whether one more line may be written, and how many were left out before it.
    pub(super) fn take(&self, kind: Identifier) -> Option<u64> {
        let max = match self.max.load(Ordering::Relaxed) {
            0 => Limits::default().log_kind_max_lines,
            max => max,
        };
        let now = Instant::now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, quota)) = kinds.iter_mut().find(|(other, _)| *other == kind) {
            return quota.take(now, max);
        }
        let mut quota = Quota::new(now);
        let taken = quota.take(now, max);
        kinds.push((kind, quota));
        taken
    }
}

impl Quota {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            left_out: 0,
        }
    }

    fn take(&mut self, now: Instant, max: u64) -> Option<u64> {
        if now.duration_since(self.since) >= WINDOW {
            self.since = now;
            self.lines = 0;
        }
        if self.lines >= max {
            self.left_out += 1;
            Limit::LogKind.hit();
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let mut quota = Quota::new(start);
        let written = (0..1000).filter_map(|_| quota.take(start, 50)).count();
        assert_eq!(written, 50);
        assert_eq!(quota.take(start + WINDOW / 2, 50), None);
        assert_eq!(quota.take(start + WINDOW, 50), Some(951));
        assert_eq!(quota.take(start + WINDOW, 50), Some(0), "it is said once");
    }
}
