//! The order of members under `|` and `!`.

use cheops_types::SiteName;

use crate::{Plan, View};

/// Smaller is better: up before down, then the shorter round trip from here, an unknown one last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nearness {
    down: bool,
    round_trip_us: u32,
}

/// Puts the nearest site first: up before down, then by round trip from here. Equally near ones stay as they are.
pub fn nearest_first<V: View + ?Sized>(sites: &mut [SiteName], view: &V) {
    sites.sort_by_cached_key(|site| Nearness::of_site(site, view));
}

impl Nearness {
    const HERE: Self = Self {
        down: false,
        round_trip_us: 0,
    };

    pub(crate) fn of_site<V: View + ?Sized>(site: &SiteName, view: &V) -> Self {
        if site == view.here() {
            return Self::HERE;
        }
        Self {
            down: !view.is_up(site),
            round_trip_us: view.round_trip_us(view.here(), site).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn of_plan<V: View + ?Sized>(plan: &Plan, view: &V) -> Self {
        match plan {
            Plan::Local | Plan::Latest { .. } => Self::HERE,
            Plan::Forward(site) => Self::of_site(site, view),
            // Its first member that is up will most likely answer.
            Plan::Fallback(members) | Plan::FirstOf(members) => {
                let mut members = members.iter().map(|member| Self::of_plan(member, view));
                let first = members.next().unwrap_or(Self::HERE);
                if first.down {
                    members.find(|member| !member.down).unwrap_or(first)
                } else {
                    first
                }
            }
            // Complete only when the last has answered.
            Plan::Gather(sites) => {
                let sites = sites.iter().map(|site| Self::of_site(site, view));
                sites.max().unwrap_or(Self::HERE)
            }
            // No member of a choice.
            Plan::Accept(_) | Plan::HandOver { .. } | Plan::Owner(_) | Plan::Whole(_) | Plan::Make(_) => {
                Self::HERE
            }
        }
    }
}
