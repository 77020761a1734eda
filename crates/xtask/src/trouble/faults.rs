//! Which faults happen when. Pure: the same seed and length give the same plan.

use std::{collections::BTreeMap, fmt};

use super::{
    dice::Dice,
    names::{Site, name},
};

/// Something that goes wrong for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// What one site sends does not reach the other; the other way is open.
    OneWay { from: Site, to: Site },
    /// Nothing passes between two sites.
    Both(Site, Site),
    /// Nothing passes between a site and the others.
    Isolate(Site),
    /// The agent is killed, and started again at the end.
    Kill(Site),
    /// The agent is stopped, and goes on at the end.
    Pause(Site),
    /// The agent's wall clock is wrong by so much, and right again at the end.
    Clock { site: Site, offset_s: i64 },
}

/// A fault and its time, in milliseconds from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) at_ms: u64,
    pub(crate) until_ms: u64,
    pub(crate) fault: Fault,
}

/// What a fault takes hold of. One fault at a time has it, so that the end of one does not end another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    Link(Site, Site),
    Process(Site),
    Clock(Site),
}

/// Pauses between the beginnings of faults, so that several are under way at most times.
const GAP_MS: (u64, u64) = (300, 2_000);
/// A site is cut off this long at most: long enough that the others go on without it.
const ISOLATED_MAX_MS: u64 = 15_000;
/// Below the least a caller waits for an answer, so that a paused agent can still give it.
const PAUSE_MAX_MS: u64 = 5_000;
/// Certificates begin to count an hour before they are made: a clock further back is a mesh without links.
const BACK_MAX_S: u64 = 50 * 60;

/// Further ahead than this an operation can still be quarantined when time is up: 60 s are tolerated
/// (`clock_ahead_max_ms`), and 30 s pass.
pub(crate) const FAR_AHEAD_S: u64 = 90;

/// The faults of a run with so many sites, `without` some by their words: the others stay as they are. None begins
/// before its first or after its last second.
pub(crate) fn plan(seed: u64, sites: usize, length_ms: u64, without: &[String]) -> Vec<Planned> {
    let mut dice = Dice::of(seed, 0);
    let mut busy: BTreeMap<Held, u64> = BTreeMap::new();
    let mut planned = Vec::new();
    let mut at_ms = 1_000;
    while at_ms + 1_000 < length_ms {
        let (fault, for_ms) = throw(&mut dice, sites);
        let until_ms = at_ms + for_ms;
        let held = held(fault, sites);
        if held
            .iter()
            .all(|one| busy.get(one).is_none_or(|until_ms| *until_ms < at_ms))
        {
            busy.extend(held.into_iter().map(|one| (one, until_ms)));
            planned.push(Planned {
                at_ms,
                until_ms,
                fault,
            });
        }
        at_ms += dice.between(GAP_MS.0, GAP_MS.1);
    }
    planned.retain(|one| without.iter().all(|word| word != one.fault.word()));
    planned
}

/// A fault and how long it lasts.
fn throw(dice: &mut Dice, sites: usize) -> (Fault, u64) {
    let site = dice.throw(sites as u64) as Site;
    let other = (site + 1 + dice.throw(sites as u64 - 1) as Site) % sites;
    match dice.throw(12) {
        0 | 1 => (
            Fault::OneWay {
                from: site,
                to: other,
            },
            dice.between(500, 6_000),
        ),
        2 | 3 => (Fault::Both(site, other), dice.between(500, 6_000)),
        4 | 5 => (Fault::Isolate(site), dice.between(1_000, ISOLATED_MAX_MS)),
        6..=8 => (Fault::Kill(site), dice.between(1, 3_000)),
        9 => (Fault::Pause(site), dice.between(200, PAUSE_MAX_MS)),
        _ => {
            let offset_s = offset(dice);
            (Fault::Clock { site, offset_s }, dice.between(1_000, 6_000))
        }
    }
}

/// How wrong a clock is. Ahead by less than others tolerate (`clock_ahead_max_ms`, 60 s); by a little more, so that
/// what is quarantined is let in soon; seldom by an hour; or back.
fn offset(dice: &mut Dice) -> i64 {
    let (seconds, sign) = match dice.throw(8) {
        0..=2 => (dice.between(1, 50), 1),
        3 => (dice.between(65, 80), 1),
        4 => (3_600, 1),
        5 => (dice.between(1, 50), -1),
        _ => (dice.between(60, BACK_MAX_S), -1),
    };
    sign * seconds.cast_signed()
}

fn held(fault: Fault, sites: usize) -> Vec<Held> {
    let link = |a: Site, b: Site| Held::Link(a.min(b), a.max(b));
    match fault {
        Fault::OneWay { from, to } => vec![link(from, to)],
        Fault::Both(a, b) => vec![link(a, b)],
        Fault::Isolate(site) => others(site, sites).map(|other| link(site, other)).collect(),
        Fault::Kill(site) | Fault::Pause(site) => vec![Held::Process(site)],
        Fault::Clock { site, .. } => vec![Held::Clock(site)],
    }
}

fn others(site: Site, sites: usize) -> impl Iterator<Item = Site> {
    (0..sites).filter(move |other| *other != site)
}

impl Fault {
    /// The words under which it is counted, and by which it can be left out.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::OneWay { .. } => "cuts one way",
            Self::Both(..) => "cuts both ways",
            Self::Isolate(_) => "isolations",
            Self::Kill(_) => "kills",
            Self::Pause(_) => "pauses",
            Self::Clock { offset_s, .. } if offset_s > FAR_AHEAD_S.cast_signed() => "clocks far ahead",
            Self::Clock { offset_s, .. } if offset_s > 0 => "clocks ahead",
            Self::Clock { .. } => "clocks back",
        }
    }

    /// The directions in which nothing passes between so many sites: `(from, to)`.
    pub(crate) fn closes(self, sites: usize) -> Vec<(Site, Site)> {
        match self {
            Self::OneWay { from, to } => vec![(from, to)],
            Self::Both(a, b) => vec![(a, b), (b, a)],
            Self::Isolate(site) => others(site, sites)
                .flat_map(|other| [(site, other), (other, site)])
                .collect(),
            Self::Kill(_) | Self::Pause(_) | Self::Clock { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OneWay { from, to } => write!(f, "{} no longer reaches {}", name(from), name(to)),
            Self::Both(a, b) => write!(f, "{} and {} are cut from each other", name(a), name(b)),
            Self::Isolate(site) => write!(f, "{} is cut off", name(site)),
            Self::Kill(site) => write!(f, "the agent of {} is killed", name(site)),
            Self::Pause(site) => write!(f, "the agent of {} is paused", name(site)),
            Self::Clock { site, offset_s } => write!(f, "the clock of {} is off by {offset_s} s", name(site)),
        }
    }
}

/// What happened, for the checker: when two sites certainly could not hear of each other's writes, and whose clock
/// was how far ahead.
#[derive(Debug, Default, Clone)]
pub(crate) struct Log(pub(crate) Vec<Planned>);

impl Log {
    /// Whether nothing can have come from one of so many sites to another in all of this time, also not by way of a
    /// third.
    pub(crate) fn apart(&self, sites: usize, (a, b): (Site, Site), from_ms: u64, to_ms: u64) -> bool {
        if a == b {
            return false;
        }
        let cut = |a: Site, b: Site| self.cut(sites, (a, b), from_ms, to_ms);
        let third = |third: Site| cut(a, third) || cut(third, b);
        cut(a, b) && (0..sites).filter(|site| *site != a && *site != b).all(third)
    }

    /// Whether one fault had both directions between two sites closed all the time. A cut of one way proves
    /// nothing: an answer carries operations as well.
    fn cut(&self, sites: usize, (a, b): (Site, Site), from_ms: u64, to_ms: u64) -> bool {
        self.0.iter().any(|happened| {
            let closes = happened.fault.closes(sites);
            closes.contains(&(a, b))
                && closes.contains(&(b, a))
                && happened.at_ms <= from_ms
                && to_ms <= happened.until_ms
        })
    }

    /// Whether a site's clock was further ahead than this at some moment of this time.
    pub(crate) fn was_ahead(&self, of: Site, by_more_than_s: u64, from_ms: u64, to_ms: u64) -> bool {
        self.0.iter().any(|happened| match happened.fault {
            Fault::Clock { site, offset_s } => {
                site == of
                    && offset_s > by_more_than_s.cast_signed()
                    && happened.at_ms <= to_ms
                    && from_ms <= happened.until_ms
            }
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_plan_and_others_differ() {
        assert_eq!(plan(7, 3, 60_000, &[]), plan(7, 3, 60_000, &[]));
        assert_ne!(plan(7, 3, 60_000, &[]), plan(8, 3, 60_000, &[]));
    }

    #[test]
    fn every_fault_happens_in_ten_minutes_and_none_takes_what_another_has() {
        for seed in 0..20 {
            let sites = 3 + seed as usize % 3;
            let planned = plan(seed, sites, 600_000, &[]);
            let words: std::collections::BTreeSet<_> = planned.iter().map(|one| one.fault.word()).collect();
            assert_eq!(words.len(), 8, "{seed}: {words:?}");
            for (number, one) in planned.iter().enumerate() {
                assert!(one.at_ms < one.until_ms);
                let together = planned[..number]
                    .iter()
                    .filter(|other| other.until_ms >= one.at_ms);
                for other in together {
                    let both = held(other.fault, sites);
                    assert!(
                        held(one.fault, sites).iter().all(|held| !both.contains(held)),
                        "{other:?} {one:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn sites_are_apart_only_while_every_way_is_cut() {
        let log = |faults: &[(Fault, u64, u64)]| {
            let planned = |(fault, at_ms, until_ms): &(Fault, u64, u64)| Planned {
                at_ms: *at_ms,
                until_ms: *until_ms,
                fault: *fault,
            };
            Log(faults.iter().map(planned).collect())
        };
        let isolated = log(&[(Fault::Isolate(0), 10, 20)]);
        assert!(isolated.apart(3, (0, 1), 10, 20));
        assert!(isolated.apart(3, (2, 0), 12, 13));
        assert!(!isolated.apart(3, (0, 1), 9, 20), "before the cut");
        assert!(!isolated.apart(3, (0, 1), 10, 21), "after the cut");
        assert!(!isolated.apart(3, (1, 2), 12, 13), "the others see each other");
        assert!(!isolated.apart(3, (0, 0), 12, 13));
        let pair = log(&[(Fault::Both(0, 1), 10, 20)]);
        assert!(!pair.apart(3, (0, 1), 12, 13), "by way of the third");
        let pairs = log(&[(Fault::Both(0, 1), 10, 20), (Fault::Both(1, 2), 11, 19)]);
        assert!(pairs.apart(3, (0, 1), 12, 13));
        let one_way = log(&[
            (Fault::OneWay { from: 0, to: 1 }, 10, 20),
            (Fault::Both(0, 2), 10, 20),
        ]);
        assert!(!one_way.apart(3, (0, 1), 12, 13));
    }
}
