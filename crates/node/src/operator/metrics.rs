//! Replication in numbers, in Prometheus' text form.

use std::{collections::BTreeMap, fmt::Write as _, sync::atomic::Ordering};

use cheops_replica::Phase;
use cheops_store::{Error, Read as _, ReadSession, Span};
use cheops_types::SiteName;

use super::{Operator, view::count};
use crate::{
    core::Core,
    model::{GroupList, GroupState, GroupSummary, OperationState},
    problems,
    rows::{Conflicts, OperationsByState, Records, Sets, SiteRow, UnsettledRecords},
};

/// How many operations of a state, and how many sets, are counted at most for one scrape.
const COUNTED_MAX: usize = 10_000;

/// The states that the store finds operations by.
const STATES: [OperationState; 5] = [
    OperationState::Waiting,
    OperationState::Retry,
    OperationState::Blocked,
    OperationState::NeedsCredentials,
    OperationState::Quarantined,
];

impl Operator {
    /// Gauges and counters of replication; only the commits' times when the store cannot be read.
    pub async fn metrics(&self) -> String {
        let counted = self.read(|core, read| {
            Numbers::count(core, read).map_err(|error| problems::store(&core.site, &error))
        });
        let numbers = counted.await.map(|numbers| numbers.render());
        let unverified = self.core.callers.unverified();
        let unverified = format!(
            "# TYPE cheops_callers_unverified_total counter\ncheops_callers_unverified_total {unverified}\n"
        );
        let fenced = self.core.fenced.load(Ordering::Relaxed);
        let fenced = format!("# TYPE cheops_sets_fenced_total counter\ncheops_sets_fenced_total {fenced}\n");
        let upkeep = self.core.comparisons.to_string() + &groups(&self.groups().await);
        numbers.unwrap_or_default() + &unverified + &fenced + &upkeep + &self.core.commit_times.to_string()
    }
}

#[derive(Debug, Default)]
struct Numbers {
    sets: u64,
    unsettled: u64,
    conflicts: u64,
    in_doubt: usize,
    operations: Vec<(OperationState, usize)>,
    /// Operations that a site has not confirmed, in the unsettled sets that were counted.
    behind: BTreeMap<SiteName, u64>,
    commits: u64,
}

impl Numbers {
    fn count(core: &Core, read: &ReadSession) -> Result<Self, Error> {
        let mut numbers = Self {
            sets: read.count::<Sets>()?,
            unsettled: read.count_by::<UnsettledRecords>()?,
            conflicts: read.count::<Conflicts>()?,
            commits: read.get::<SiteRow>(&())?.map_or(0, |row| row.commits),
            ..Self::default()
        };
        for state in STATES {
            let span = Span::under(&state.as_str().to_owned());
            let found = read.keys_by::<OperationsByState>(&span, COUNTED_MAX)?;
            numbers.operations.push((state, found.len()));
        }
        for site in core.surroundings.sites() {
            if site != core.site {
                numbers.behind.insert(site, 0);
            }
        }
        for ((), meta) in read.keys_by::<UnsettledRecords>(&Span::all(), COUNTED_MAX)? {
            let Some(row) = read.get::<Records>(&meta)? else {
                continue;
            };
            let set = row.record.set;
            numbers.in_doubt += usize::from(set.job().is_some_and(|job| job.phase == Phase::Stuck));
            let held = count(set.held());
            for site in set.members().keys().filter(|site| **site != core.site) {
                let done = set.peer_view(site).map_or(0, |peer| count(&peer.done));
                *numbers.behind.entry(site.clone()).or_default() += held.saturating_sub(done);
            }
        }
        Ok(numbers)
    }

    fn render(&self) -> String {
        let mut text = String::new();
        let mut gauge = |name: &str, value: u64| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "# TYPE cheops_{name} gauge\ncheops_{name} {value}");
        };
        gauge("replica_sets", self.sets);
        gauge("replica_sets_unsettled", self.unsettled);
        gauge("conflicts", self.conflicts);
        let _ = writeln!(
            text,
            "# TYPE cheops_replication_commits_total counter\ncheops_replication_commits_total {}",
            self.commits
        );
        text.push_str("# TYPE cheops_operations gauge\n");
        let in_doubt = (OperationState::InDoubt, self.in_doubt);
        for (state, number) in self.operations.iter().chain([&in_doubt]) {
            let _ = writeln!(text, "cheops_operations{{state=\"{state}\"}} {number}");
        }
        text.push_str("# TYPE cheops_replication_lag gauge\n");
        for (site, number) in &self.behind {
            let _ = writeln!(text, "cheops_replication_lag{{site=\"{site}\"}} {number}");
        }
        text
    }
}

/// What the groups of sites that decide together are at.
fn groups(list: &GroupList) -> String {
    let groups = &list.groups;
    let count =
        |is_meant: &dyn Fn(&GroupSummary) -> bool| groups.iter().filter(|group| is_meant(group)).count();
    let open: u64 = groups.iter().map(|group| group.open).sum();
    let entries: u64 = groups.iter().map(|group| group.entries).sum();
    let mut text = String::new();
    for (name, number) in [
        ("groups", groups.len() as u64),
        (
            "groups_awake",
            count(&|group| group.state == GroupState::Awake) as u64,
        ),
        (
            "groups_without_leader",
            count(&|group| group.leader.is_none()) as u64,
        ),
        ("groups_open_writes", open),
        ("groups_log_entries", entries),
    ] {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE cheops_{name} gauge\ncheops_{name} {number}");
    }
    text
}
