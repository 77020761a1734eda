//! What lost against a concurrent operation, kept until an operator has dealt with it.

use serde::{Deserialize, Serialize};

use crate::{OpId, Operation};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The operation that lost, with its payload.
    pub loser: Operation,
    pub cause: Cause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A concurrent operation overwrote it, wholly or in part.
    Winner(Box<Operation>),
    /// It is concurrent with operations that are no longer kept.
    TooLate,
    /// Its site was removed from the set before any other site had it.
    Expelled,
    /// No good replica had executed it: some sites refused it, others refused something else.
    Forgone,
    /// This site could not execute it, and the bound of the log was reached.
    Bound,
}

impl Conflict {
    pub fn winner(&self) -> Option<&OpId> {
        match &self.cause {
            Cause::Winner(op) => Some(&op.id),
            _ => None,
        }
    }
}
