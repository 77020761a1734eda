//! The hybrid clock: times that follow the wall clock where they can and causality always.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A hybrid time: milliseconds of a wall clock, then a counter for what happened within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Stamp {
    pub millis: u64,
    pub count: u32,
}

impl Stamp {
    /// The first stamp that is later than this one.
    #[must_use]
    pub fn next(self) -> Self {
        match self.count.checked_add(1) {
            Some(count) => Self { count, ..self },
            None => Self {
                millis: self.millis.saturating_add(1),
                count: 0,
            },
        }
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis, self.count)
    }
}

/// A time that is further ahead of the wall clock than is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the time {stamp} is {ahead_ms} ms ahead of this site's clock")]
pub struct Ahead {
    pub stamp: Stamp,
    pub ahead_ms: u64,
}

/// One site's hybrid clock.
///
/// Every stamp it gives is later than every stamp that it gave or witnessed, also when the wall
/// clock stands still or goes back a little, and also after a restart, provided that it is persisted with
/// what it stamped. A wall clock that was far ahead once and is right again takes it back: whoever needs a stamp to
/// be later than another one says so with [`Stamp::next`]. The wall clock's reading is handed in: this type reads
/// none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HybridClock {
    last: Stamp,
}

impl HybridClock {
    /// The latest stamp that was given or witnessed.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// The stamp of an event at this site. It leads the wall clock by `lead_max_ms` at most.
    pub fn tick(&mut self, now_ms: u64, lead_max_ms: u64) -> Stamp {
        let is_possible = self.last.millis <= now_ms.saturating_add(lead_max_ms);
        self.last = if is_possible && now_ms <= self.last.millis {
            self.last.next()
        } else {
            Stamp {
                millis: now_ms,
                count: 0,
            }
        };
        self.last
    }

    /// Takes note of another site's stamp, unless it is more than `ahead_max_ms` ahead of the wall
    /// clock: then the clock stays as it was, so that one wrong clock cannot carry all away.
    pub fn witness(&mut self, stamp: Stamp, now_ms: u64, ahead_max_ms: u64) -> Result<(), Ahead> {
        let ahead_ms = stamp.millis.saturating_sub(now_ms);
        if ahead_ms > ahead_max_ms {
            return Err(Ahead { stamp, ahead_ms });
        }
        self.last = self.last.max(stamp);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_grow_whatever_the_wall_clock_does() {
        let mut clock = HybridClock::default();
        let mut before = clock.last();
        for now_ms in [5, 5, 3, 0, 6, 6, 4] {
            let stamp = clock.tick(now_ms, 100);
            assert!(stamp > before, "{stamp} after {before}");
            before = stamp;
        }
        assert_eq!(before, Stamp { millis: 6, count: 2 });
    }

    #[test]
    fn a_full_counter_moves_the_time_on() {
        let last = Stamp {
            millis: 7,
            count: u32::MAX,
        };
        let mut clock = HybridClock { last };
        assert_eq!(clock.tick(1, 100), Stamp { millis: 8, count: 0 });
    }

    #[test]
    fn a_clock_that_was_wrong_once_is_taken_back() {
        let mut clock = HybridClock::default();
        clock.tick(1_000_000, 100);
        assert_eq!(clock.tick(50, 100), Stamp { millis: 50, count: 0 });
        assert_eq!(clock.tick(50, 100), Stamp { millis: 50, count: 1 });
    }

    #[test]
    fn what_was_witnessed_is_in_the_past() {
        let mut clock = HybridClock::default();
        let seen = Stamp { millis: 90, count: 4 };
        clock.witness(seen, 50, 100).unwrap();
        assert!(clock.tick(50, 100) > seen);
    }

    #[test]
    fn a_stamp_too_far_ahead_changes_nothing() {
        let mut clock = HybridClock::default();
        let far = Stamp {
            millis: 1000,
            count: 0,
        };
        assert_eq!(clock.witness(far, 50, 100).unwrap_err().ahead_ms, 950);
        assert_eq!(clock.last(), Stamp::default());
    }
}
