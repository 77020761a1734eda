//! From a schedule that fails to a smaller one that fails in the same way.

use crate::{
    Without,
    without::{Calm, Parts},
};

/// What one attempt costs beside its steps, so that attempts without steps come to an end too.
const ATTEMPT_STEPS: u64 = 100;

/// How a smaller schedule ended.
pub(crate) struct Played {
    /// The invariant that did not hold.
    pub(crate) broke: Option<String>,
    pub(crate) steps: u64,
}

/// Leaves out as much as the budget allows while the same invariant breaks. The budget is counted in steps of the
/// engine, not in time: so the result is the same everywhere.
pub(crate) fn shrink(
    parts: &Parts,
    invariant: &str,
    budget_steps: u64,
    play: impl FnMut(&Without) -> Played,
) -> Without {
    let mut search = Search {
        best: Without::default(),
        invariant,
        left_steps: budget_steps,
        play,
    };
    loop {
        let before = search.best.clone();
        search.calm_down();
        search.leave_sites_out(parts.sites);
        search.leave_happenings_out(&parts.groups);
        if search.best == before || search.left_steps == 0 {
            return search.best;
        }
    }
}

struct Search<'s, P> {
    best: Without,
    invariant: &'s str,
    left_steps: u64,
    play: P,
}

impl<P: FnMut(&Without) -> Played> Search<'_, P> {
    /// Keeps a smaller schedule if it fails in the same way.
    fn attempt(&mut self, smaller: Without) -> bool {
        if smaller == self.best || self.left_steps == 0 {
            return false;
        }
        let Played { broke, steps } = (self.play)(&smaller);
        self.left_steps = self.left_steps.saturating_sub(steps + ATTEMPT_STEPS);
        let is_same = broke.as_deref() == Some(self.invariant);
        if is_same {
            self.best = smaller;
        }
        is_same
    }

    /// All dice at once, then one after the other.
    fn calm_down(&mut self) {
        let mut all = self.best.clone();
        all.calm.extend(Calm::ALL);
        if self.attempt(all) {
            return;
        }
        for calm in Calm::ALL {
            let mut smaller = self.best.clone();
            smaller.calm.insert(calm);
            self.attempt(smaller);
        }
    }

    fn leave_sites_out(&mut self, sites: usize) {
        for site in (0..sites).rev() {
            let mut smaller = self.best.clone();
            smaller.absent.insert(site);
            self.attempt(smaller);
        }
    }

    /// Whole sets first, then halves, quarters and so on, down to single happenings.
    fn leave_happenings_out(&mut self, groups: &[Vec<u64>]) {
        for group in groups {
            self.leave_out(group);
        }
        let all: Vec<u64> = groups.iter().flatten().copied().collect();
        let mut size = all.len().div_ceil(2);
        while size > 0 {
            let is_there = |number: &&u64| !self.best.happenings.contains(number);
            let left: Vec<u64> = all.iter().filter(is_there).copied().collect();
            // From the end: what comes first is more often the cause.
            for some in left.rchunks(size) {
                self.leave_out(some);
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    fn leave_out(&mut self, numbers: &[u64]) -> bool {
        let mut smaller = self.best.clone();
        smaller.happenings.extend(numbers);
        self.attempt(smaller)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_matters_is_left() {
        let parts = Parts {
            sites: 3,
            groups: vec![(1..=20).collect(), (21..=30).collect()],
        };
        // It fails with 7 and 12, the site 1, and lost messages.
        let play = |without: &Without| {
            let fails = !without.happenings.contains(&7)
                && !without.happenings.contains(&12)
                && !without.absent.contains(&1)
                && !without.calm.contains(&Calm::Loss);
            Played {
                broke: fails.then(|| "order".to_owned()),
                steps: 10,
            }
        };
        let without = shrink(&parts, "order", 1_000_000, play);
        let left: BTreeSet<u64> = (1..=30).filter(|n| !without.happenings.contains(n)).collect();
        assert_eq!(left, BTreeSet::from([7, 12]));
        assert_eq!(without.absent, BTreeSet::from([0, 2]));
        assert_eq!(without.calm.len(), Calm::ALL.len() - 1);
    }

    #[test]
    fn another_failure_is_not_the_same() {
        let parts = Parts {
            sites: 1,
            groups: vec![vec![1]],
        };
        let play = |_: &Without| Played {
            broke: Some("equal".to_owned()),
            steps: 1,
        };
        assert!(shrink(&parts, "order", 1000, play).is_empty());
    }
}
