//! An operation and what this site made of it.

use serde::{Deserialize, Serialize};

use crate::{Operation, Secret};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub op: Operation,
    pub state: State,
    /// Destroyed with the entry, when the operation is stable.
    pub credential: Option<Secret>,
    /// Has an outcome, and is to be executed again: an earlier operation came late, or it was refused and is
    /// retried.
    pub redo: bool,
    /// Before this time it is not tried again.
    pub until_ms: u64,
    pub tries: u32,
    /// What the application said about the last try, where that explains the state.
    #[serde(default)]
    pub said: Option<String>,
    /// Its payload is not here yet: until it is, the operation does not count as held here.
    #[serde(default)]
    pub bare: bool,
    /// An attempt without a result may have left its effect, although it counts as not executed.
    #[serde(default)]
    pub doubted: bool,
    /// Attempts that were sent and got no answer, since it was last begun or retried.
    #[serde(default)]
    pub silent: u32,
}

impl Entry {
    pub(crate) fn new(op: Operation, credential: Option<Secret>, state: State) -> Self {
        Self {
            op,
            state,
            credential,
            redo: false,
            until_ms: 0,
            tries: 0,
            said: None,
            bare: false,
            doubted: false,
            silent: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    /// Whether it should have executed here and could not.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(
            self.state,
            State::Done(Outcome::Refused { .. } | Outcome::Abandoned | Outcome::NoReplica)
        )
    }

    /// The status with which the application refused it; 0 where it did not.
    pub(crate) fn refusal(&self) -> u16 {
        match self.state {
            State::Done(Outcome::Refused { status }) => status,
            _ => 0,
        }
    }

    /// Whether the application here has its effect, or may have it.
    pub(crate) fn may_have_executed(&self) -> bool {
        self.has_executed() || self.doubted
    }

    /// Whether the application here has seen its effect, so that a late operation must mind it.
    pub(crate) fn has_executed(&self) -> bool {
        matches!(self.state, State::Done(Outcome::Executed | Outcome::Installed))
            && self.op.verb.is_for_application()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    Waiting(Why),
    Done(Outcome),
}

/// Why an operation has no outcome here yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// For what it follows, or for the resource to be free.
    Turn,
    /// The application was not able to; tried again.
    Retry {
        status: Option<u16>,
    },
    /// The application does not let it; tried again slowly. With status 0 it gave no answer too often, and is not tried
    /// again by itself ([`Why::SPENT`]).
    Blocked {
        status: u16,
    },
    NeedsCredentials,
    /// Its time is too far ahead of this site's clock.
    Quarantined,
    /// It may have executed: that is found out, or an operator must say. Only told: at the site itself the job says
    /// so.
    InDoubt,
}

impl Why {
    /// An execution that got no answer too often: it may be what ends its application.
    pub const SPENT: Self = Self::Blocked { status: 0 };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Executed,
    /// Later operations leave nothing of it.
    Covered,
    /// The resource is deleted.
    Superseded,
    /// It came too late to be put in order; it is a conflict.
    Lost,
    /// The application refused it for good.
    Refused {
        status: u16,
    },
    /// An operator gave it up.
    Abandoned,
    /// There is no replica here that it could apply to.
    NoReplica,
    /// It came with the state of another replica.
    Installed,
    /// It changed the set's record only.
    Noted,
}
