//! What the sites of a strong set decide together.

use serde::{Deserialize, Serialize};

use crate::{Operation, Secret, Token};

/// An operation on its way, with the credential that it executes with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub op: Operation,
    pub credential: Option<Secret>,
}

/// What has become of a write to a strong set, everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// An operation of the set.
    Executed(Box<Carried>),
    /// The application of the site that had to decide did not take it.
    Refused { token: Token, status: u16 },
}

// === impl Decision ===

impl Decision {
    pub fn token(&self) -> Token {
        match self {
            Self::Executed(carried) => carried.op.token,
            Self::Refused { token, .. } => *token,
        }
    }
}
