//! What is left out of a schedule, so that a failure can be seen without what has nothing to do with it.

use std::{collections::BTreeSet, fmt, str::FromStr};

use cheops_replica::Verb;
use cheops_types::SiteName;

use crate::{Happening, World};

/// A part of a seed's schedule that does not happen. Everything else stays what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Without {
    /// Prepared happenings by their number, counted from 1 as the seed makes them.
    pub happenings: BTreeSet<u64>,
    /// Dice that are not thrown.
    pub calm: BTreeSet<Calm>,
    /// Sites that are part of nothing.
    pub absent: BTreeSet<usize>,
    /// Everything of [`crate::Twists`].
    pub twists: bool,
}

/// Something that goes wrong by chance, and does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Calm {
    Loss,
    Duplicates,
    Delay,
    Crashes,
    Failures,
    Silence,
    Refusals,
    Locks,
    Skew,
    SmallLog,
    Parts,
}

impl Calm {
    pub const ALL: [Self; 11] = [
        Self::Loss,
        Self::Duplicates,
        Self::Delay,
        Self::Crashes,
        Self::Failures,
        Self::Silence,
        Self::Refusals,
        Self::Locks,
        Self::Skew,
        Self::SmallLog,
        Self::Parts,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Duplicates => "duplicates",
            Self::Delay => "delay",
            Self::Crashes => "crashes",
            Self::Failures => "failures",
            Self::Silence => "silence",
            Self::Refusals => "refusals",
            Self::Locks => "locks",
            Self::Skew => "skew",
            Self::SmallLog => "small-log",
            Self::Parts => "parts",
        }
    }

    fn apply(self, world: &mut World) {
        let plan = &mut world.plan;
        match self {
            Self::Loss => plan.loss = 0,
            Self::Duplicates => plan.duplicate = 0,
            Self::Delay => plan.delay_max_ms = plan.delay_max_ms.min(5),
            Self::Crashes => plan.crash = 0,
            Self::Failures => plan.app_fails = 0,
            Self::Silence => plan.app_silent = 0,
            Self::Refusals => plan.refuses = 0,
            Self::Locks => plan.locks = 0,
            Self::Skew => world.nodes.iter_mut().for_each(|node| {
                (node.skew_ms, node.usual_skew_ms) = (0, 0);
            }),
            Self::SmallLog => plan.tuning.log_max_bytes = 1 << 30,
            Self::Parts => plan.divided = false,
        }
    }
}

impl fmt::Display for Calm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Calm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|calm| calm.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{name}` is none of {names}")
        })
    }
}

/// As arguments of the simulator.
impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, items: Vec<String>| {
            if items.is_empty() {
                return Ok(());
            }
            write!(f, " --{name} {}", items.join(","))
        };
        list(f, "without", ranges(&self.happenings))?;
        list(f, "calm", self.calm.iter().map(ToString::to_string).collect())?;
        list(f, "absent", self.absent.iter().map(ToString::to_string).collect())?;
        f.write_str(if self.twists { " --classic" } else { "" })
    }
}

/// Numbers in a row as `4-9`.
fn ranges(numbers: &BTreeSet<u64>) -> Vec<String> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let shown = |(first, last): (u64, u64)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.into_iter().map(shown).collect()
}

/// `7` or `4-9`, as [`Without`] shows them.
pub fn parse_range(text: &str) -> Result<std::ops::RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("`{text}` is not a number"))
    };
    Ok(number(first)?..=number(last)?)
}

impl Without {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes its part out of a schedule that is prepared and not played.
    pub(crate) fn apply(&self, world: &mut World) {
        for calm in &self.calm {
            calm.apply(world);
        }
        let absent: Vec<_> = self.absent.iter().filter_map(|at| world.nodes.get(*at)).collect();
        let names: BTreeSet<_> = absent.into_iter().map(|node| node.name.clone()).collect();
        world.happenings.retain(|number, happening| {
            !self.happenings.contains(number) && self.stays(happening) && leave_out(happening, &names)
        });
    }

    /// Whether a happening is about sites that are there.
    fn stays(&self, happening: &Happening) -> bool {
        let is_there = |at: &usize| !self.absent.contains(at);
        match happening {
            Happening::Cut { from, to, .. } => is_there(from) && is_there(to),
            other => site_of(other).as_ref().is_none_or(is_there),
        }
    }
}

/// Takes sites out of what a happening says. False when nothing is left of it.
fn leave_out(happening: &mut Happening, sites: &BTreeSet<SiteName>) -> bool {
    let (Happening::Write { draft, .. } | Happening::Create { draft, .. }) = happening else {
        return true;
    };
    match &mut draft.verb {
        Verb::Create(birth) => birth.sites.retain(|site| !sites.contains(site)),
        Verb::Join { site, .. } | Verb::Leave { site } | Verb::Expel { site } => {
            return !sites.contains(site);
        }
        _ => {}
    }
    true
}

/// Where a happening happens, if that is one site.
fn site_of(happening: &Happening) -> Option<usize> {
    match happening {
        Happening::Deliver { to, .. } | Happening::Welcome { to, .. } => Some(*to),
        Happening::Cut { .. } => None,
        Happening::Hello { from, .. } => Some(*from),
        Happening::SetClock { node, .. }
        | Happening::Copy(node)
        | Happening::PutBack(node)
        | Happening::Crash(node)
        | Happening::Start(node)
        | Happening::LoseStore(node)
        | Happening::Effect { node, .. }
        | Happening::Answer { node, .. }
        | Happening::Look { node, .. }
        | Happening::Wake { node, .. }
        | Happening::Write { node, .. }
        | Happening::Create { node, .. }
        | Happening::Adopt { node, .. }
        | Happening::Errand { node, .. }
        | Happening::Meddle { node, .. }
        | Happening::Payload { node, .. }
        | Happening::Check { node, .. } => Some(*node),
    }
}

/// What a prepared schedule is made of, for whoever leaves some of it out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    pub(crate) sites: usize,
    /// The numbers of the happenings, those of one set together.
    pub(crate) groups: Vec<Vec<u64>>,
}

impl Parts {
    pub(crate) fn of(world: &World) -> Self {
        let of_set = |set: Option<&str>| -> Vec<u64> {
            let all = world.happenings.iter();
            let some = all.filter(|(_, happening)| set_of(happening) == set);
            some.map(|(number, _)| *number).collect()
        };
        let sets = world.sets();
        let mut groups: Vec<_> = sets.iter().map(|set| of_set(Some(set.as_str()))).collect();
        groups.push(of_set(None));
        groups.retain(|group| !group.is_empty());
        Self {
            sites: world.nodes.len(),
            groups,
        }
    }
}

/// The set that a prepared happening is about.
fn set_of(happening: &Happening) -> Option<&str> {
    match happening {
        Happening::Write { set, .. }
        | Happening::Create { set, .. }
        | Happening::Adopt { set, .. }
        | Happening::Errand { set, .. }
        | Happening::Meddle { set, .. }
        | Happening::Check { set, .. } => Some(set.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_shown_as_arguments() {
        let without = Without {
            happenings: BTreeSet::from([3, 4, 5, 9]),
            calm: BTreeSet::from([Calm::Loss, Calm::SmallLog]),
            absent: BTreeSet::from([2]),
            twists: true,
        };
        assert_eq!(
            without.to_string(),
            " --without 3-5,9 --calm loss,small-log --absent 2 --classic"
        );
        assert_eq!(parse_range("3-5"), Ok(3..=5));
        assert_eq!(parse_range("9"), Ok(9..=9));
        assert_eq!("small-log".parse(), Ok(Calm::SmallLog));
    }
}
