//! What was found: medians and quartiles over the rounds, ratios within a round, and what was aimed at.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::failover::Failover;
use crate::bench::{report::Quartiles, writers::Run};

/// Many writers, in relation to etcd.
const RATE_MIN: f64 = 0.4;
/// Times the least that a write can take.
const TIME_MAX: f64 = 1.2;

/// After a kill, at whatever site.
const FAILOVER_MAX_MS: f64 = 3_000.0;

/// One side in one round.
pub(super) struct Side {
    /// One writer through the site that decides; none if no write was.
    pub(super) own_ms: Option<f64>,
    /// The same through another site.
    pub(super) other_ms: Option<f64>,
    pub(super) many: Run,
    /// Of all sites together, for one of many writes.
    pub(super) cpu_us: f64,
}

pub(super) struct Round {
    pub(super) cheops: Side,
    pub(super) etcd: Side,
}

/// What holds for all rounds.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Given {
    pub(super) rtt_ms: u16,
    pub(super) writers: u16,
    pub(super) synced_ms: f64,
    pub(super) application_ms: f64,
}

#[derive(Serialize)]
pub(super) struct Report {
    rounds: usize,
    #[serde(flatten)]
    given: Given,
    cheops: Figures,
    etcd: Figures,
    /// Writes to puts, by round.
    rate_ratio: Quartiles,
    own_max_ms: f64,
    other_max_ms: f64,
    failovers: Option<Failovers>,
}

/// All of them: the worst, since each must hold.
#[derive(Serialize)]
struct Failovers {
    count: usize,
    first_ms: f64,
    everywhere_ms: f64,
    back_ms: f64,
}

#[derive(Serialize)]
struct Figures {
    own_ms: Option<Quartiles>,
    other_ms: Option<Quartiles>,
    per_second: Quartiles,
    many_ms: Quartiles,
    cpu_us: Quartiles,
}

impl Report {
    pub(super) fn new(rounds: &[Round], failovers: &[Failover], given: Given) -> Self {
        let Given {
            rtt_ms,
            synced_ms,
            application_ms,
            ..
        } = given;
        let worst = |of: fn(&Failover) -> Duration| {
            let worst = failovers.iter().map(of).max();
            worst.unwrap_or_default().as_secs_f64() * 1e3
        };
        let ratio = |round: &Round| round.cheops.many.per_second / round.etcd.many.per_second;
        // Two entries, each to a majority and back and on its disks; the application in between.
        let own_ms = 2.0 * (f64::from(rtt_ms) + synced_ms) + application_ms;
        Self {
            rounds: rounds.len(),
            given,
            cheops: Figures::of(rounds.iter().map(|round| &round.cheops)),
            etcd: Figures::of(rounds.iter().map(|round| &round.etcd)),
            rate_ratio: Quartiles::of(rounds.iter().map(ratio).collect()),
            own_max_ms: TIME_MAX * own_ms,
            other_max_ms: TIME_MAX * (own_ms + f64::from(rtt_ms) + application_ms),
            failovers: (!failovers.is_empty()).then(|| Failovers {
                count: failovers.len(),
                first_ms: worst(|one| one.first),
                everywhere_ms: worst(|one| one.everywhere),
                back_ms: worst(|one| one.back),
            }),
        }
    }

    /// Nothing that was not measured holds.
    pub(super) fn holds(&self) -> bool {
        let is_below = |found: Option<Quartiles>, max_ms| found.is_some_and(|found| found.median <= max_ms);
        is_below(self.cheops.own_ms, self.own_max_ms)
            && is_below(self.cheops.other_ms, self.other_max_ms)
            && self.rate_ratio.median >= RATE_MIN
            && self
                .failovers
                .as_ref()
                .is_none_or(|all| all.everywhere_ms.max(all.back_ms) <= FAILOVER_MAX_MS)
    }
}

impl Figures {
    fn of<'a>(sides: impl Iterator<Item = &'a Side>) -> Self {
        let sides: Vec<_> = sides.collect();
        let all = |of: fn(&Side) -> f64| Quartiles::of(sides.iter().map(|side| of(side)).collect());
        let some = |of: fn(&Side) -> Option<f64>| {
            let found: Vec<_> = sides.iter().filter_map(|side| of(side)).collect();
            (!found.is_empty()).then(|| Quartiles::of(found))
        };
        Self {
            own_ms: some(|side| side.own_ms),
            other_ms: some(|side| side.other_ms),
            per_second: all(|side| side.many.per_second),
            many_ms: all(|side| side.many.median_ms),
            cpu_us: all(|side| side.cpu_us),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} ms round trip, a synced write takes {:.2} ms, the application {:.2} ms; {} rounds; medians (quartiles)",
            self.given.rtt_ms, self.given.synced_ms, self.given.application_ms, self.rounds
        )?;
        let Self { cheops, etcd, .. } = self;
        let some = |found: Option<Quartiles>| found.map_or("-".to_owned(), |found| show(found, 1));
        let many = format!("{} writers, a second", self.given.writers);
        for (what, cheops, etcd, aim) in [
            (
                "one writer where it is decided, ms",
                some(cheops.own_ms),
                some(etcd.own_ms),
                format!("≤ {:.1}", self.own_max_ms),
            ),
            (
                "one writer at another site, ms",
                some(cheops.other_ms),
                some(etcd.other_ms),
                format!("≤ {:.1}", self.other_max_ms),
            ),
            (
                &many,
                show(cheops.per_second, 0),
                show(etcd.per_second, 0),
                format!("≥ {RATE_MIN} of etcd's: {} now", show(self.rate_ratio, 2)),
            ),
            (
                "one of them, ms",
                show(cheops.many_ms, 1),
                show(etcd.many_ms, 1),
                String::new(),
            ),
            (
                "CPU for it at all sites, µs",
                show(cheops.cpu_us, 0),
                show(etcd.cpu_us, 0),
                String::new(),
            ),
        ] {
            writeln!(f, "{what:<36} {cheops:<24} etcd {etcd:<24} {aim}")?;
        }
        let Some(all) = &self.failovers else {
            return Ok(());
        };
        writeln!(
            f,
            "{} fail-overs, the worst of each: the first write after {:.0} ms, one at every site after {:.0} ms; when the site is \
             back, {:.0} ms without one; aim ≤ {FAILOVER_MAX_MS}",
            all.count, all.first_ms, all.everywhere_ms, all.back_ms
        )
    }
}

fn show(Quartiles { q1, median, q3 }: Quartiles, digits: usize) -> String {
    format!("{median:.digits$} ({q1:.digits$}–{q3:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(own_ms: Option<f64>, per_second: f64) -> Side {
        Side {
            own_ms,
            other_ms: own_ms.map(|own_ms| own_ms + 50.0),
            many: Run {
                per_second,
                median_ms: 1.0,
                cpu_us: Vec::new(),
            },
            cpu_us: 1.0,
        }
    }

    #[track_caller]
    fn check(own_ms: Option<f64>, per_second: f64, holds: bool) {
        let round = Round {
            cheops: side(own_ms, per_second),
            etcd: side(Some(50.0), 100.0),
        };
        let report = Report::new(&[round], &failovers(2_900), GIVEN);
        assert_eq!(report.holds(), holds, "{report}");
        assert_eq!(report.to_string().lines().count(), 7);
    }

    const GIVEN: Given = Given {
        rtt_ms: 50,
        writers: 64,
        synced_ms: 1.0,
        application_ms: 1.0,
    };

    fn failovers(worst_ms: u64) -> [Failover; 2] {
        [1_000, worst_ms].map(|everywhere_ms| Failover {
            first: Duration::from_millis(900),
            everywhere: Duration::from_millis(everywhere_ms),
            back: Duration::from_millis(200),
        })
    }

    #[test]
    fn the_worst_failover_counts() {
        let rounds = || Round {
            cheops: side(Some(120.0), 40.0),
            etcd: side(Some(50.0), 100.0),
        };
        assert!(!Report::new(&[rounds()], &failovers(3_001), GIVEN).holds());
        assert!(Report::new(&[rounds()], &[], GIVEN).holds());
    }

    #[test]
    fn times_and_rates_have_bounds() {
        check(Some(120.0), 40.0, true);
        // 1.2 × (2 × 51 + 1) is 123.6.
        check(Some(124.0), 40.0, false);
        check(Some(120.0), 39.0, false);
        check(None, 40.0, false);
    }
}
