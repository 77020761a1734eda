use crate::{engine::EngineError, key::BadKey, value::BadValue};

/// Why a session did not give what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing happened; to be tried again later.
    #[error("{queue_max} changes wait for the store already: try again later")]
    Busy { queue_max: usize },
    /// Nothing of the session was kept. Reads go on, and writes when there is room again.
    #[error("no space is left on the store's disk: free some, then repeat the request")]
    Full,
    /// Nothing of the session was kept.
    #[error(transparent)]
    Engine(EngineError),
    /// The session is durable as a whole or not at all, and nobody knows which: read again.
    #[error("the store's disk failed during a commit, its outcome is unknown: {0}")]
    Unknown(EngineError),
    /// A row is not what its table holds. Nothing of the session was kept.
    #[error("a row of the table `{table}` cannot be used: {reason}")]
    BadRow { table: &'static str, reason: String },
    /// The session's own decision. Nothing of it was kept.
    #[error("{0}")]
    Refused(String),
    /// The store was closed, or its writer ended, before the session was committed.
    #[error("the store is closed: the change was not made")]
    Closed,
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoSpace => Self::Full,
            error => Self::Engine(error),
        }
    }
}

impl Error {
    pub(crate) fn bad_key(table: &'static str, error: BadKey) -> Self {
        Self::BadRow {
            table,
            reason: error.to_string(),
        }
    }

    pub(crate) fn bad_value(table: &'static str, error: &BadValue) -> Self {
        Self::BadRow {
            table,
            reason: error.to_string(),
        }
    }
}
