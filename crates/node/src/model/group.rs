use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

/// The groups of sites that decide together and that this site is part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupList {
    pub groups: Vec<GroupSummary>,
}

/// A group as this site sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Of the sites that founded it, and how often they did.
    pub id: String,
    pub founders: Vec<SiteName>,
    pub generation: u32,
    /// The site that decides now; none while none is known.
    pub leader: Option<SiteName>,
    pub members: Vec<GroupMember>,
    /// How many times a leader was looked for.
    pub term: u64,
    pub last: Option<u64>,
    pub committed: Option<u64>,
    /// What this site has taken from the log.
    pub applied: Option<u64>,
    /// Entries that are kept.
    pub entries: u64,
    pub bytes: u64,
    /// Writes that are not decided yet, as far as this site knows.
    pub open: u64,
    pub state: GroupState,
}

super::set::words! {
    /// What a group does.
    GroupState {
        /// Its leader says that it is there.
        Awake = "awake",
        /// Nothing was to be decided for a while.
        Asleep = "asleep",
        /// This site's disk does not let it take part.
        Stopped = "stopped",
    }
}

/// A site that takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMember {
    pub site: SiteName,
    /// The life of its store that takes part.
    pub incarnation: u64,
    /// Whether it counts for a majority; else it follows.
    pub votes: bool,
}

/// Who is to lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    pub to: SiteName,
}
