//! For how long nothing was accepted although enough sites could have agreed. Pure.

use std::collections::BTreeSet;

use super::faults::silences;
use crate::trouble::{Log, Site};

/// A stretch of time, in milliseconds from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ms: u64,
    pub(super) to_ms: u64,
}

impl Stretch {
    fn length_ms(self) -> u64 {
        self.to_ms.saturating_sub(self.from_ms)
    }
}

/// The longest time between two of these moments, or from the beginning to the first or from the last to the end, in
/// which more than half of the sites all ran and all heard each other. An agent that is started again counts as
/// running from then on, so what it needs to come back is in here.
pub(super) fn longest(log: &Log, sites: usize, length_ms: u64, accepted_ms: &[u64]) -> Stretch {
    let mut moments: Vec<_> = accepted_ms.iter().copied().filter(|at| *at < length_ms).collect();
    moments.push(0);
    moments.push(length_ms);
    moments.sort_unstable();
    let mut longest = Stretch { from_ms: 0, to_ms: 0 };
    for connected in majorities(log, sites, length_ms) {
        let first = moments.partition_point(|at| *at <= connected.from_ms);
        let mut from_ms = connected.from_ms;
        let inside = moments[first..]
            .iter()
            .copied()
            .take_while(|at| *at < connected.to_ms);
        for to_ms in inside.chain([connected.to_ms]) {
            let gap = Stretch { from_ms, to_ms };
            if gap.length_ms() > longest.length_ms() {
                longest = gap;
            }
            from_ms = to_ms;
        }
    }
    longest
}

/// When there was a majority, whichever it was.
fn majorities(log: &Log, sites: usize, length_ms: u64) -> Vec<Stretch> {
    let changes = log.0.iter().flat_map(|one| [one.at_ms, one.until_ms]);
    let mut changes: BTreeSet<u64> = changes.filter(|at| *at < length_ms).collect();
    changes.extend([0, length_ms]);
    let changes: Vec<_> = changes.into_iter().collect();
    let mut all: Vec<Stretch> = Vec::new();
    for ends in changes.windows(2) {
        let (from_ms, to_ms) = (ends[0], ends[1]);
        if !has_majority(log, sites, from_ms) {
            continue;
        }
        match all.last_mut() {
            Some(last) if last.to_ms == from_ms => last.to_ms = to_ms,
            _ => all.push(Stretch { from_ms, to_ms }),
        }
    }
    all
}

/// Whether there are sites enough that run and hear each other, both ways, right after this moment.
fn has_majority(log: &Log, sites: usize, at_ms: u64) -> bool {
    let under_way = || {
        let faults = log.0.iter();
        faults.filter(move |one| one.at_ms <= at_ms && at_ms < one.until_ms)
    };
    let silent: BTreeSet<Site> = under_way().filter_map(|one| silences(one.fault)).collect();
    let closed: BTreeSet<(Site, Site)> = under_way().flat_map(|one| one.fault.closes(sites)).collect();
    let all_hear = |some: &[Site]| {
        let pairs = some.iter().flat_map(|a| some.iter().map(move |b| (*a, *b)));
        some.iter().all(|site| !silent.contains(site))
            && pairs.into_iter().all(|pair| !closed.contains(&pair))
    };
    (0..1_u32 << sites)
        .filter(|chosen| chosen.count_ones() as usize > sites / 2)
        .any(|chosen| {
            let some: Vec<_> = (0..sites).filter(|site| chosen & (1 << site) != 0).collect();
            all_hear(&some)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::{Fault, Planned};

    fn log(faults: &[(Fault, u64, u64)]) -> Log {
        let planned = faults.iter().map(|(fault, at_ms, until_ms)| Planned {
            at_ms: *at_ms,
            until_ms: *until_ms,
            fault: *fault,
        });
        Log(planned.collect())
    }

    #[track_caller]
    fn check(faults: &[(Fault, u64, u64)], accepted_ms: &[u64], expected: (u64, u64)) {
        let found = longest(&log(faults), 5, 100, accepted_ms);
        assert_eq!((found.from_ms, found.to_ms), expected);
    }

    #[test]
    fn without_faults_every_gap_counts() {
        check(&[], &[10, 20, 60, 90], (20, 60));
        check(&[], &[10, 20], (20, 100));
        check(&[], &[], (0, 100));
    }

    #[test]
    fn a_majority_may_be_any_three_of_five() {
        let two = [(Fault::Isolate(0), 10, 90), (Fault::Kill(1), 10, 90)];
        check(&two, &[10, 90], (10, 90));
        let three = [two[0], two[1], (Fault::Pause(2), 10, 90)];
        check(&three, &[10, 90], (0, 10));
        // Three are left of each cut, but no three that all hear each other.
        let cuts = [
            (Fault::Both(0, 1), 10, 90),
            (Fault::OneWay { from: 2, to: 3 }, 10, 90),
            (Fault::Kill(4), 10, 90),
        ];
        check(&cuts, &[1, 95], (1, 10));
        check(&cuts[..2], &[1, 95], (1, 95));
    }

    #[test]
    fn a_majority_that_goes_on_in_other_sites_is_one() {
        check(
            &[(Fault::Kill(0), 0, 50), (Fault::Kill(1), 50, 100)],
            &[20],
            (20, 100),
        );
    }

    #[test]
    fn a_wrong_clock_silences_nobody() {
        let clock = Fault::Clock { site: 0, offset_s: 9 };
        check(&[(clock, 0, 100)], &[], (0, 100));
    }
}
