//! A set that broke a rule of the engine.

use serde::{Deserialize, Serialize};

use super::Set;

/// Why nothing happens to a set any more.
///
/// A state that the engine takes for impossible, wherever it came from, must not end the agent, which has other sets.
/// So whoever runs the engine catches the failure, puts the set back to what it was before, and fences it off: no event
/// changes it until an operator lets it go on or drops it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fenced {
    /// What the engine said.
    pub why: String,
    /// When, on this site's wall clock.
    pub since_ms: u64,
}

impl Set {
    pub fn fence(&mut self, why: String, since_ms: u64) {
        self.fenced = Some(Fenced { why, since_ms });
    }

    pub fn fenced(&self) -> Option<&Fenced> {
        self.fenced.as_ref()
    }
}
