//! What a step is given besides the state: the time, the bounds and the rules of the application.

use cheops_types::Limits;
use serde::{Deserialize, Serialize};

use crate::Rules;

/// What a step may know of the world.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// The wall clock of this site.
    pub now_ms: u64,
    pub tuning: &'c Tuning,
    pub rules: &'c dyn Rules,
}

/// Times and bounds of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// An operation whose time is further ahead of the wall clock is quarantined.
    pub ahead_max_ms: u64,
    pub retry_min_ms: u64,
    pub retry_max_ms: u64,
    /// Between two tries of an operation that the application does not let through.
    pub blocked_retry_ms: u64,
    /// How long an application may still be working on a request that got no answer.
    pub settle_ms: u64,
    pub resend_min_ms: u64,
    pub resend_max_ms: u64,
    pub batch_max_ops: usize,
    pub batch_max_bytes: u64,
    /// Beyond this, what only absent sites still need is dropped; they get a snapshot instead.
    pub log_max_bytes: u64,
    /// Beyond this, the oldest conflicts of a set are dropped, and counted.
    pub conflicts_max: usize,
    /// After so many attempts that were sent and got no answer, an execution is not sent again by itself.
    pub execution_tries_max: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

impl From<&Limits> for Tuning {
    fn from(limits: &Limits) -> Self {
        Self {
            ahead_max_ms: limits.clock_ahead_max_ms,
            retry_min_ms: limits.replay_retry_min_ms,
            retry_max_ms: limits.replay_retry_max_ms,
            blocked_retry_ms: limits.replay_blocked_ms,
            settle_ms: limits.doubt_settle_ms,
            resend_min_ms: limits.ship_retry_min_ms,
            resend_max_ms: limits.ship_retry_max_ms,
            batch_max_ops: limits.ship_batch_max_ops,
            batch_max_bytes: limits.ship_batch_max_bytes,
            log_max_bytes: limits.log_max_bytes,
            conflicts_max: limits.set_conflicts_max,
            execution_tries_max: limits.execution_tries_max,
        }
    }
}

impl Tuning {
    pub(crate) fn retry_ms(&self, tries: u32) -> u64 {
        backoff(self.retry_min_ms, self.retry_max_ms, tries)
    }

    pub(crate) fn resend_ms(&self, tries: u32) -> u64 {
        backoff(self.resend_min_ms, self.resend_max_ms, tries)
    }
}

fn backoff(min_ms: u64, max_ms: u64, tries: u32) -> u64 {
    min_ms.saturating_mul(1 << tries.min(20)).min(max_ms)
}
