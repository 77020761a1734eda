//! Resources that span sites, as operators see them.

use cheops_types::{Share, SiteName, SpanForm, Unreserved};
use serde::{Deserialize, Serialize};

use super::{Credential, Replica, SetSummary};

/// A page of cross resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossList {
    pub resources: Vec<CrossSummary>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// A cross resource as this site knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossSummary {
    #[serde(flatten)]
    pub set: SetSummary,
    pub form: SpanForm,
    /// The site that gives names away, and gets the rest of what cannot be divided.
    pub prime: Option<SiteName>,
    /// How counts are divided; the sum of the parts is the whole.
    pub shares: Vec<Share>,
    /// How many names this site keeps: all of them at the prime site.
    pub names: usize,
    /// How many of them more than one resource has.
    pub flagged: usize,
}

/// A cross resource and its extents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossDetail {
    #[serde(flatten)]
    pub cross: CrossSummary,
    /// What becomes of a create while the prime site cannot be asked.
    pub unreserved: Unreserved,
    /// One per site, this one first.
    pub extents: Vec<Replica>,
    /// Sites that were removed by force.
    pub removed: Vec<SiteName>,
    pub flagged_names: Vec<FlaggedName>,
}

/// A name that more than one resource has: the owner's is the earliest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlaggedName {
    /// Kind and key.
    pub name: String,
    pub owner: SiteName,
    pub since_ms: u64,
    /// The sites of the others. Empty where only the prime site knows.
    pub rivals: Vec<SiteName>,
}

/// Divides the counts of a cross resource anew.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rebalance {
    /// How much each site gets; 1 where it is not listed. Without any: as before.
    pub weights: Option<Vec<(SiteName, u32)>>,
    /// Another whole, where there is one count.
    pub total: Option<u64>,
    /// For changing the resource; without one it is done in the last writer's name, where the glue says how.
    pub credential: Credential,
}
