//! Which faults there are: those of sites that only have to agree in the end, or a few cuts alone.

use crate::trouble::{self, Fault, Planned};

/// How long a site is cut off when nothing else happens.
const CUT_MS: u64 = 2_000;

/// Of a run. Pure: the same seed, sites and length give the same.
pub(super) fn plan(seed: u64, sites: usize, length_ms: u64, without: &[String]) -> Vec<Planned> {
    trouble::plan(seed, sites, length_ms, without)
}

/// One site after the other is cut off for a while, and nothing else.
pub(super) fn cuts(sites: usize, length_ms: u64) -> Vec<Planned> {
    let times = (CUT_MS..length_ms).step_by(2 * CUT_MS as usize);
    let cut = |(at_ms, site)| Planned {
        at_ms,
        until_ms: at_ms + CUT_MS,
        fault: Fault::Isolate(site),
    };
    times.zip((0..sites).cycle()).map(cut).collect()
}

/// A site that does nothing, or has no link to anybody, while the fault lasts.
pub(super) fn silences(fault: Fault) -> Option<trouble::Site> {
    match fault {
        Fault::Kill(site) | Fault::Pause(site) => Some(site),
        Fault::OneWay { .. } | Fault::Both(..) | Fault::Isolate(_) | Fault::Clock { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_sites_meet_every_fault_in_half_an_hour() {
        let planned = plan(1, 5, 1_800_000, &[]);
        let mut words: Vec<_> = planned.iter().map(|one| one.fault.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8, "{words:?}");
        let hit = |site| planned.iter().any(|one| one.fault == Fault::Kill(site));
        assert!((0..5).all(hit));
        assert!(planned.len() > 400, "{}", planned.len());
    }

    #[test]
    fn a_self_check_only_cuts() {
        let planned = cuts(5, 15_000);
        assert_eq!(planned.len(), 4, "{planned:?}");
        assert!(planned.iter().all(|one| silences(one.fault).is_none()));
    }
}
