use cheops_types::{ServiceName, SiteName};
use serde::{Deserialize, Serialize};

use super::{Body, Difference, set::words};

/// A page of conflicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictList {
    pub conflicts: Vec<ConflictSummary>,
    /// Where the next page begins. A page may be shorter than asked for and yet not be the last.
    pub next: Option<String>,
}

/// An operation that lost, and to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictSummary {
    /// The losing operation's.
    pub id: String,
    /// The meta-id of its set.
    pub set: String,
    pub service: ServiceName,
    pub kind: String,
    pub method: String,
    pub path: String,
    /// The site that accepted it.
    pub origin: SiteName,
    pub time_ms: u64,
    pub cause: Cause,
    pub winner: Option<String>,
}

words! {
    /// Why an operation lost.
    Cause {
        /// A concurrent operation overwrote it, wholly or in part.
        Overwritten = "overwritten",
        /// It is concurrent with operations that are no longer kept.
        TooLate = "too-late",
        /// Its site was removed before any other had it.
        Expelled = "expelled",
        /// Each site had refused something, and the replica that the others now follow had refused this.
        Forgone = "forgone",
        /// The site that keeps it could not execute it, and its log was full.
        Bound = "bound",
    }
}

/// Both sides of a conflict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConflictDetail {
    pub conflict: ConflictSummary,
    pub loser: Side,
    pub winner: Option<Side>,
    /// Between the two bodies where both are JSON: `left` is the loser's.
    pub differences: Vec<Difference>,
}

/// One operation of a conflict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Side {
    pub operation: String,
    pub origin: SiteName,
    pub time_ms: u64,
    pub method: String,
    pub path: String,
    /// What was recorded, without credentials.
    pub headers: Vec<(String, String)>,
    pub body: Body,
}

/// What became of a conflict that was applied again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reapplied {
    /// The new operation.
    pub operation: String,
    /// The application's answer.
    pub status: u16,
}
