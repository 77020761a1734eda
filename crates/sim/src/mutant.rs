//! Defects made on purpose, to see that the simulator finds them.

use cheops_replica::{Set, Site};

use crate::Node;

/// A way in which an agent, or the engine's state in its hands, is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Effects leave before the commit.
    ReleaseFirst,
    /// Deleted sets are forgotten at a restart.
    DropTombstones,
    /// An execution without a result is taken for one that has not begun.
    ExecuteTwice,
    /// The conflicts are lost at a restart.
    DropConflicts,
    /// What was executed is forgotten at a restart, but not the log's end.
    ForgetOutcome,
    /// What a site keeps of itself, its clock and the age of its store, starts from nothing.
    ForgetAge,
    /// The clock starts from nothing, that of the site and those of its sets.
    ForgetClock,
    /// A site says that it has executed what it only holds.
    ClaimDone,
    /// Messages go to sites that are not involved.
    SendToAll,
    /// Nothing waits for another resource.
    IgnoreNeeds,
    /// How a count is divided is forgotten at a restart.
    ForgetDivision,
}

impl Mutant {
    pub const ALL: &[Self] = &[
        Self::ReleaseFirst,
        Self::DropTombstones,
        Self::ExecuteTwice,
        Self::DropConflicts,
        Self::ForgetOutcome,
        Self::ForgetAge,
        Self::ForgetClock,
        Self::ClaimDone,
        Self::SendToAll,
        Self::IgnoreNeeds,
        Self::ForgetDivision,
    ];

    /// Changes what a node finds on its disk when it starts.
    pub fn restart(self, node: &mut Node) {
        match self {
            Self::DropTombstones => node.disk.sets.retain(|_, set| !set.is_deleted()),
            Self::ForgetAge => {
                let site = &node.disk.site;
                node.disk.site = Site::new(site.name().clone(), site.incarnation());
            }
            Self::ForgetClock => {
                let nothing = serde_json::json!({ "millis": 0, "count": 0 });
                let mut site = serde_json::to_value(&node.disk.site).expect("a site can be written");
                site["clock"]["last"] = nothing.clone();
                node.disk.site = serde_json::from_value(site).expect("still a site");
                edit(node, |set| set["time"] = nothing.clone());
            }
            Self::ExecuteTwice => edit(node, |set| set["job"] = serde_json::Value::Null),
            Self::ForgetDivision => edit(node, |set| set["division"] = serde_json::Value::Null),
            Self::DropConflicts => edit(node, |set| set["conflicts"] = serde_json::json!([])),
            Self::ForgetOutcome => edit(node, |set| {
                let Some(last) = set["log"].as_array_mut().and_then(|log| log.last_mut()) else {
                    return;
                };
                if last["state"].get("Done").is_some() {
                    last["redo"] = serde_json::json!(true);
                }
            }),
            Self::ReleaseFirst | Self::ClaimDone | Self::SendToAll | Self::IgnoreNeeds => {}
        }
    }
}

fn edit(node: &mut Node, change: impl Fn(&mut serde_json::Value)) {
    for set in node.disk.sets.values_mut() {
        let mut value = serde_json::to_value(&*set).expect("a set can be written");
        change(&mut value);
        *set = serde_json::from_value::<Set>(value).expect("still a set");
    }
}
