use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

use super::{Difference, set::words};

/// All replicas of a set, read and compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The meta-id.
    pub set: String,
    /// The site that the others are compared with: the one that accepted the last write, or else the first
    /// that could be read.
    pub reference: Option<SiteName>,
    /// Whether every replica could be read and none differs.
    pub same: bool,
    /// Whether a repair was asked for; the rest is how the replicas are afterwards.
    pub repaired: bool,
    pub replicas: Vec<VerifiedReplica>,
}

/// How one replica compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedReplica {
    pub site: SiteName,
    pub comparison: Comparison,
    /// Of what the glue says matters.
    pub digest: Option<String>,
    /// `left` is the reference's.
    pub differences: Vec<Difference>,
    /// Why there is nothing to compare.
    pub reason: Option<String>,
}

words! {
    /// A replica against the reference.
    Comparison {
        Reference = "reference",
        Same = "same",
        Different = "different",
        /// Operations are still on their way to it: it is not expected to be the same yet.
        Behind = "behind",
        /// There is no replica.
        Absent = "absent",
        /// It could not be read.
        Unreachable = "unreachable",
    }
}
