//! What somebody asked for, and what became of it.

use std::fmt;

/// One request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Who asked. Only shown: the requests of one process may overlap like any others.
    pub process: u32,
    /// What it is about. Operations on different keys have nothing to do with each other.
    pub key: String,
    pub action: Action,
    pub outcome: Outcome,
    /// A moment at which it certainly had no effect yet. All moments of a history are of one clock.
    pub invoked: u64,
    /// A moment at which it certainly had its effect, if it had one. Of an operation that is [`Outcome::Unknown`],
    /// when nobody waited for it any more; it says nothing then.
    pub returned: u64,
}

/// A key has a value, or there is none. In the beginning there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// What was found, none if there was nothing. Says nothing unless it is [`Outcome::Done`].
    Read(Option<u64>),
    /// Sets the value, whatever there was before.
    Write(u64),
    /// Sets the value where the expected one is, else does nothing.
    CompareAndSet { expected: u64, value: u64 },
    /// Sets the value where there is none, else does nothing.
    Create(u64),
    /// Leaves nothing where there is a value, else does nothing.
    Delete,
}

/// What the answer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It had its effect, once, between the two moments.
    Done,
    /// It had none, because at some time between the two moments there was not what it needs: a statement about the
    /// key, like a read. Reads and writes need nothing; of them it is the same as `Refused`.
    Unmet,
    /// It had no effect and will have none. Says nothing about the key.
    Refused,
    /// It may have its effect at any time after it was invoked, also after `returned`; or never.
    Unknown,
}

impl Operation {
    /// Whether it comes before another one in every order.
    pub fn precedes(&self, other: &Self) -> bool {
        self.outcome != Outcome::Unknown && self.returned < other.invoked
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(Some(found)) => write!(f, "read {found}"),
            Self::Read(None) => write!(f, "read nothing"),
            Self::Write(value) => write!(f, "write {value}"),
            Self::CompareAndSet { expected, value } => write!(f, "set {expected} to {value}"),
            Self::Create(value) => write!(f, "create {value}"),
            Self::Delete => write!(f, "delete"),
        }
    }
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unmet => "unmet",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            action,
            outcome,
            invoked,
            returned,
            ..
        } = self;
        match outcome {
            Outcome::Unknown => write!(f, "p{process} {action}, {invoked} … unknown since {returned}"),
            _ => write!(
                f,
                "p{process} {action}, {invoked} … {} at {returned}",
                outcome.as_str()
            ),
        }
    }
}
