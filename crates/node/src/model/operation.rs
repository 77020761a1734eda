use cheops_types::{ServiceName, SiteName};
use serde::{Deserialize, Serialize};

use super::{Body, set::words};

/// A page of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationList {
    pub operations: Vec<OperationSummary>,
    /// Where the next page begins. A page may be shorter than asked for and yet not be the last.
    pub next: Option<String>,
}

/// A recorded write and what this site made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationSummary {
    pub id: String,
    /// The meta-id of its set.
    pub set: String,
    pub service: ServiceName,
    pub kind: String,
    /// What it does: create, replace, merge, action, delete; join, leave, expel and dismiss change the
    /// set's record only; install makes this replica what another one is.
    pub verb: String,
    pub method: String,
    pub path: String,
    /// The site that accepted it.
    pub origin: SiteName,
    pub time_ms: u64,
    /// Here.
    pub state: OperationState,
    /// The application's last answer here, where it explains the state.
    pub status: Option<u16>,
    pub tries: u32,
    /// When it is tried again here.
    pub next_try_ms: Option<u64>,
}

words! {
    /// How an operation stands at one site.
    OperationState {
        Waiting = "waiting",
        /// Handed to the application.
        Running = "running",
        Retry = "retry",
        Blocked = "blocked",
        NeedsCredentials = "needs-credentials",
        Quarantined = "quarantined",
        /// It may have executed; it is about to be found out.
        Resolving = "resolving",
        /// It may have executed; an operator must say.
        InDoubt = "in-doubt",
        Executed = "executed",
        Covered = "covered",
        Superseded = "superseded",
        Lost = "lost",
        Refused = "refused",
        NoReplica = "no-replica",
        Installed = "installed",
        Noted = "noted",
        Abandoned = "abandoned",
    }
}

impl OperationState {
    /// Whether it has no outcome yet.
    pub fn is_open(self) -> bool {
        self < Self::Executed
    }
}

/// An operation at all sites of its set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationDetail {
    pub operation: OperationSummary,
    /// Why it waits here, in a sentence.
    pub why: Option<String>,
    pub sites: Vec<SiteProgress>,
    /// Sets that it waits for, by meta-id.
    pub needs: Vec<String>,
    pub scope: String,
    pub caller: Option<String>,
    /// What was recorded; credentials are kept elsewhere and never told.
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// Whether a credential for it is kept here.
    pub has_credential: bool,
}

/// How far an operation is at one site, as far as this one knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteProgress {
    pub site: SiteName,
    pub state: SiteState,
}

words! {
    /// What is known of an operation at a site.
    SiteState {
        /// It has not said that it has it.
        Unconfirmed = "unconfirmed",
        /// On its disk, without an outcome.
        Held = "held",
        /// The same, and this is what holds it up.
        Retry = "retry",
        Blocked = "blocked",
        NeedsCredentials = "needs-credentials",
        Quarantined = "quarantined",
        InDoubt = "in-doubt",
        /// It has an outcome.
        Done = "done",
    }
}
