//! The one execution that a set may have under way at a site.

use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

use crate::{Conditions, Decision, Degraded, Digest, OpId, Operation, Recognise, Secret, Token, Vector};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Tells this attempt from earlier ones, whose answers no longer count.
    pub ticket: u64,
    pub work: Work,
    pub phase: Phase,
    pub tries: u32,
    /// An accepted write that had its end in an earlier life of this store: the others have its number.
    #[serde(default)]
    pub over: bool,
    /// How often its doubt was left open for what the others may know of it.
    #[serde(default)]
    pub waited: u32,
    /// Its doubt ended much later than it should have, by the clock, and was begun anew.
    #[serde(default)]
    pub overslept: bool,
    /// Attempts that were sent and got no answer.
    #[serde(default)]
    pub silent: u32,
    /// What the application answered last, where that does not say whether it has executed.
    #[serde(default)]
    pub status: Option<u16>,
    /// What the group of the set has decided about it, before this site's application has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<Decision>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Handed to the application.
    Running,
    /// Without a result. Resolved from `until_ms` on, when the application can no longer be working
    /// on it.
    Doubt { until_ms: u64 },
    /// Looking for the marker.
    Looking,
    /// The application has answered that the replica is there, or that it is not: reading tells whether that is so.
    Confirming { status: u16 },
    /// In doubt for good: an operator decides.
    Stuck,
    /// The application has executed or refused it. The group of the set has not decided yet.
    Proposed { executed: bool, status: u16 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A write accepted here. It becomes an operation of the set when it succeeds.
    Accept {
        op: Box<Operation>,
        #[serde(default)]
        conditions: Option<Conditions>,
        credential: Option<Secret>,
        /// The client has its answer, or nobody waits for it.
        answered: bool,
        /// Its caller was told that it will execute: it ends with the application's word, not before.
        #[serde(default)]
        promised: bool,
        /// A create that sets the replica that is there.
        #[serde(default)]
        remakes: bool,
    },
    Replay {
        id: OpId,
    },
    Install,
    /// The delete of the replica of a site that leaves.
    Vacate {
        token: Token,
    },
    Read,
}

/// State from another replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    pub token: Token,
    pub recognise: Recognise,
    /// What had executed where it was read.
    pub at: Vector,
    /// None: the resource is gone.
    #[serde(with = "crate::bytes::maybe")]
    pub state: Option<Vec<u8>>,
    /// The digest that its source has, where this is a repair.
    #[serde(default)]
    pub wanted: Option<Digest>,
    /// Of whoever let this site in.
    pub credential: Option<Secret>,
    /// The application has answered a create of it, by now or long ago.
    #[serde(default)]
    pub made: bool,
    /// What the application said last.
    pub status: Option<u16>,
    pub tries: u32,
    pub until_ms: u64,
    /// The application's own words, where it does not take the state.
    #[serde(default)]
    pub said: Option<String>,
    /// Why the replica that it was read from was not what it should be: then this one is not either.
    #[serde(default)]
    pub degraded: Option<Degraded>,
    /// Whose word it is. Unlike an operation, a state is signed by nobody. None where no other site is believed: the
    /// replica of a resource that is deleted goes.
    #[serde(default)]
    pub source: Option<SiteName>,
    /// Attempts that were sent and got no answer.
    #[serde(default)]
    pub silent: u32,
}

impl Install {
    pub(crate) fn of(at: Vector, state: Option<Vec<u8>>) -> Self {
        Self {
            token: Token(0),
            recognise: Recognise::Nothing,
            at,
            state,
            wanted: None,
            credential: None,
            made: false,
            status: None,
            tries: 0,
            until_ms: 0,
            said: None,
            degraded: None,
            source: None,
            silent: 0,
        }
    }
}
