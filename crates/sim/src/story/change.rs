//! What a step has changed of a set, as somebody who looks at the disk before and after it sees it.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{OpId, Phase, Set, Standing, State, Why};

use super::words;

/// What was seen of a set the last time.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    entries: BTreeMap<OpId, (State, bool)>,
    conflicts: BTreeSet<OpId>,
    members: Vec<String>,
    local: Option<String>,
    degraded: Option<String>,
    is_deleted: bool,
    standing: Option<Standing>,
    phase: Option<&'static str>,
}

impl Seen {
    pub(crate) fn of(set: &Set) -> Self {
        let degraded = |degraded: &cheops_replica::Degraded| {
            let operation = degraded.operation.as_ref().map_or(String::new(), words::id);
            format!("{operation} {}", degraded.status).trim().to_owned()
        };
        Self {
            entries: set
                .log()
                .map(|entry| (entry.op.id.clone(), (entry.state, entry.redo)))
                .collect(),
            conflicts: set
                .conflicts()
                .map(|conflict| conflict.loser.id.clone())
                .collect(),
            members: set
                .members()
                .iter()
                .map(|(site, member)| {
                    let leaves = if member.leaving.is_some() { " (leaves)" } else { "" };
                    format!("{site}{leaves}")
                })
                .collect(),
            local: set.local().map(ToString::to_string),
            degraded: set.degraded().map(degraded),
            is_deleted: set.is_deleted(),
            standing: Some(set.standing()),
            phase: set.job().and_then(|job| match job.phase {
                Phase::Running => None,
                Phase::Doubt { .. } => Some("does not know whether its execution happened"),
                Phase::Confirming { .. } => Some("reads its replica before it believes the answer"),
                Phase::Looking => Some("looks for what its create may have made"),
                Phase::Stuck => Some("has an execution in doubt that only an operator can settle"),
                Phase::Proposed { .. } => Some("has executed what its group has yet to decide"),
            }),
        }
    }

    /// What is different now, each thing as the rest of a sentence about the site.
    pub(crate) fn changes(&self, now: &Self, set: &Set) -> Vec<String> {
        let mut changes = self.operations(now, set);
        let is_first = self.standing.is_none();
        let pruned: Vec<_> = self
            .entries
            .keys()
            .filter(|id| !now.entries.contains_key(*id) && set.pruned().includes(id))
            .map(words::id)
            .collect();
        if !pruned.is_empty() {
            changes.push(format!("keeps {} no longer", pruned.join(" ")));
        }
        let lost = now.conflicts.difference(&self.conflicts);
        changes.extend(lost.map(|id| format!("has a new conflict: {} lost", words::id(id))));
        let settled = self.conflicts.difference(&now.conflicts);
        changes.extend(settled.map(|id| format!("has no conflict {} any more", words::id(id))));
        if self.members != now.members && !is_first {
            changes.push(format!("knows the members {}", now.members.join(" ")));
        }
        if self.local != now.local {
            changes.push(match &now.local {
                Some(local) => format!("has the replica {local}"),
                None => "has no replica any more".to_owned(),
            });
        }
        if self.degraded != now.degraded {
            changes.push(match &now.degraded {
                Some(why) => format!("is degraded: {why}"),
                None => "is no longer degraded".to_owned(),
            });
        }
        if now.is_deleted && !self.is_deleted {
            changes.push("counts the resource as deleted".to_owned());
        }
        if self.standing != now.standing && !(is_first && now.standing == Some(Standing::Member)) {
            changes.push(match now.standing {
                Some(Standing::Left) => "has left the set".to_owned(),
                Some(Standing::Expelled) => "is out of the set".to_owned(),
                _ => "is in the set again".to_owned(),
            });
        }
        if self.phase != now.phase {
            changes.extend(now.phase.map(str::to_owned));
        }
        changes
    }

    fn operations(&self, now: &Self, set: &Set) -> Vec<String> {
        let mut changes = Vec::new();
        for entry in set.log() {
            let id = words::id(&entry.op.id);
            let Some((state, redo)) = self.entries.get(&entry.op.id) else {
                let state = match entry.state {
                    State::Waiting(Why::Turn) => String::new(),
                    state => format!("; it {}", words::state(state)),
                };
                changes.push(format!("notes {}{state}", words::operation(&entry.op)));
                continue;
            };
            let Some((now_state, now_redo)) = now.entries.get(&entry.op.id) else {
                continue;
            };
            if state != now_state {
                changes.push(format!("has {id}; it {}", words::state(*now_state)));
            }
            if !redo && *now_redo {
                changes.push(format!("has to execute {id} again: an earlier one came late"));
            }
            if *redo && !now_redo {
                changes.push(format!("is done with {id} once more"));
            }
        }
        changes
    }
}
