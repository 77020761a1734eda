//! How far a site is, as it tells the others.

use serde::{Deserialize, Serialize};

use super::{Degraded, Wait};
use crate::{Age, LocalId, OpId, Vector};

/// How far the sender is. Every message has one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub incarnation: u64,
    /// How many steps the sender's store has seen. What is not a vector counts only from a report that is not
    /// older than the last.
    #[serde(default)]
    pub age: Age,
    /// Which of the sender's stays in the set this is about.
    pub stay: u32,
    pub held: Vector,
    pub done: Vector,
    pub local: Option<LocalId>,
    pub degraded: Option<Degraded>,
    /// The sender has left the set in good order.
    pub left: bool,
    /// The sender wants the receiver's report.
    pub ask: bool,
    /// What the first operations at the sender wait for that do not just wait for their turn; at most
    /// [`Wait::MAX`].
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// The first operations that the sender holds without their payloads; at most so many that a reader who sees
    /// that number takes all others with a payload for such ones too.
    #[serde(default)]
    pub bare: Vec<OpId>,
}
