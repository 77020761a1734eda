//! Seeds of schedules that are known to break the contract, and why; and of those that once did.

use crate::Without;

/// Why the schedule of a seed is known to fail. The table is `tests/known.txt`: a seed and a reason on each line.
pub fn known(seed: u64) -> Option<&'static str> {
    rows().find_map(|(listed, why)| (listed == seed).then_some(why))
}

/// The table of `tests/pinned.txt`: a seed, whether it is played without twists (a `c` behind it), and what it once
/// showed.
pub fn pinned() -> impl Iterator<Item = (u64, Without, &'static str)> {
    let lines = include_str!("../tests/pinned.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (seed, what) = line.split_once(' ').expect("a seed and what it showed");
        let without = Without {
            twists: seed.ends_with('c'),
            ..Without::default()
        };
        let number = seed.trim_end_matches('c');
        (number.parse().expect("a number"), without, what.trim())
    })
}

fn rows() -> impl Iterator<Item = (u64, &'static str)> {
    let lines = include_str!("../tests/known.txt").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (seed, why) = line.split_once(' ').expect("a seed and a reason");
        (seed.parse().expect("a number"), why.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_seed_has_a_reason() {
        for (seed, why) in rows() {
            assert!(!why.is_empty(), "seed {seed}");
            assert!(known(seed).is_some());
        }
        assert_eq!(known(u64::MAX), None);
    }
}
