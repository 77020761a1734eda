//! What this site knows of another member.

use serde::{Deserialize, Serialize};

use super::Wait;
use crate::{Age, Degraded, Digest, LocalId, OpId, Vector};

#[allow(clippy::struct_excessive_bools)] // each is one fact about the member
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Peer {
    /// The life of its store that the rest is about; 0 before it was heard of.
    pub incarnation: u64,
    /// The age of the last report that counted.
    #[serde(default)]
    pub age: Age,
    /// Whether its clock was not too far ahead of this site's when it was last heard of.
    #[serde(default)]
    pub in_line: Option<bool>,
    /// When it was last heard of, on this site's wall clock; noted only while that matters (`Set::orphaned_ms`).
    #[serde(default)]
    pub heard_ms: u64,
    /// The life of this site's store that it last spoke to.
    #[serde(default)]
    pub speaks_to: u64,
    /// It cannot begin from the log: it joined later, or lost its store.
    pub needs_snapshot: bool,
    pub held: Vector,
    pub done: Vector,
    /// What it has executed and nothing that can still arrive here is concurrent with.
    pub safe: Vector,
    pub fence: Option<Fence>,
    /// Its own word on its replica.
    pub local: Option<LocalId>,
    pub degraded: Option<Degraded>,
    /// What the first of its operations wait for that do not just wait for their turn.
    #[serde(default)]
    pub waits: Vec<Wait>,
    /// Of what it holds, the first operations whose payloads it lacks.
    #[serde(default)]
    pub bare: Vec<OpId>,
    /// It has left the set in good order.
    pub left: bool,
    /// What was sent to it and may be on its way.
    pub sent: Vector,
    pub resend_ms: u64,
    pub tries: u32,
    pub want: Option<Want>,
    pub digest: Option<(Vector, Digest)>,
    /// It waits for this site's digest.
    #[serde(default)]
    pub asks_digest: bool,
    /// Its digest is what came of it when it was set to the reference's state, or refused that.
    #[serde(default)]
    pub mended: bool,
}

/// What a member had at one moment. Everything that it writes later comes after `done`; once this
/// site has executed `held`, nothing that it can still receive from there is concurrent with `done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    pub held: Vector,
    pub done: Vector,
}

/// What is to be read here for a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Want {
    /// All it needs to begin, or to begin anew.
    Snapshot,
    /// The state alone: its replica differs.
    State,
}

impl Peer {
    /// Takes note of how far the member is, in any order of arrival. `mine` is what has executed here.
    pub(crate) fn learn(&mut self, held: &Vector, done: &Vector, mine: &Vector) {
        self.needs_snapshot = false;
        self.held.join(held);
        self.done.join(done);
        self.sent.join(held);
        self.settle(mine);
    }

    /// Moves `safe` on where this site has executed what the member held at the fence. A fence that
    /// stays until it is passed, instead of the latest report, lets `safe` move under steady writes.
    pub(crate) fn settle(&mut self, mine: &Vector) {
        for _ in 0..2 {
            let fence = self.fence.get_or_insert_with(|| Fence {
                held: self.held.clone(),
                done: self.done.clone(),
            });
            if !mine.covers(&fence.held) {
                return;
            }
            self.safe.join(&fence.done);
            self.fence = None;
        }
    }
}
