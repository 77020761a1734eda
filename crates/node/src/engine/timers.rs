//! When each set wants to be woken.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use cheops_replica::MetaId;

/// The longest wait for a time on the wall clock, which may be set while nobody looks.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// A clock that goes back by less is being corrected, not set.
const SET_BACK_MS: u64 = 1_000;

/// What is due is given out once; a set that wants more says so.
#[derive(Debug, Default)]
pub(super) struct Timers {
    order: BTreeSet<(u64, MetaId)>,
    times: HashMap<MetaId, u64>,
    /// What the wall clock showed when it was last looked at.
    now_ms: u64,
}

impl Timers {
    pub(super) fn set(&mut self, meta: &MetaId, at_ms: Option<u64>) {
        if let Some(before) = self.times.remove(meta) {
            self.order.remove(&(before, meta.clone()));
        }
        if let Some(at_ms) = at_ms {
            self.times.insert(meta.clone(), at_ms);
            self.order.insert((at_ms, meta.clone()));
        }
    }

    /// Sets whose time has come, some of them if there are many.
    pub(super) fn due(&mut self, now_ms: u64, max: usize) -> Vec<MetaId> {
        if now_ms.saturating_add(SET_BACK_MS) < self.now_ms {
            // The clock was set back: what waits for a time that it showed before would wait for that long.
            for meta in self.times.keys().cloned().collect::<Vec<_>>() {
                self.set(&meta, Some(now_ms));
            }
        }
        self.now_ms = now_ms;
        let due: Vec<_> = self
            .order
            .iter()
            .take_while(|(at_ms, _)| *at_ms <= now_ms)
            .take(max)
            .map(|(_, meta)| meta.clone())
            .collect();
        for meta in &due {
            self.set(meta, None);
        }
        due
    }

    /// How long nothing is due; none when nothing is waited for.
    pub(super) fn patience(&self, now_ms: u64) -> Option<Duration> {
        let (at_ms, _) = self.order.first()?;
        Some(Duration::from_millis(at_ms.saturating_sub(now_ms)).min(PATIENCE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_a_time_that_the_clock_no_longer_shows() {
        let a = MetaId::new("a");
        let mut timers = Timers::default();
        assert!(timers.due(1_000_000, 10).is_empty());
        timers.set(&a, Some(1_000_500));
        assert_eq!(timers.due(5_000, 10), [a]);
    }

    #[test]
    fn gives_out_what_is_due_in_order_and_once() {
        let [a, b, c] = ["a", "b", "c"].map(MetaId::new);
        let mut timers = Timers::default();
        timers.set(&a, Some(30));
        timers.set(&b, Some(10));
        timers.set(&c, Some(20));
        timers.set(&c, Some(90));
        assert_eq!(timers.patience(4), Some(Duration::from_millis(6)));
        assert_eq!(timers.due(30, 10), [b, a.clone()]);
        assert!(timers.due(30, 10).is_empty());
        timers.set(&c, None);
        assert_eq!(timers.patience(30), None);
        timers.set(&a, Some(u64::MAX));
        assert_eq!(timers.patience(30), Some(PATIENCE_MAX));
    }
}
