//! What operations wait for, beside their turn.

use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

use super::{Entry, Peer, Phase, Set, State, Why, Work};
use crate::{OpId, Report};

/// An operation without an outcome at a site, and what must happen there before it can have one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub operation: OpId,
    pub why: Why,
    /// The application's own words, where they are the reason.
    #[serde(default)]
    pub said: Option<String>,
}

impl Wait {
    /// How many a site tells: what holds a set up is among the first, the rest waits behind them.
    pub const MAX: usize = 8;

    /// Whether the others need not hear of the difference. What the application says from try to try is no
    /// news.
    fn is_like(&self, other: &Self) -> bool {
        let is_retry = |why| matches!(why, Why::Retry { .. });
        self.operation == other.operation
            && (self.why == other.why || is_retry(self.why) && is_retry(other.why))
    }
}

/// What a site may make others keep of its application's words.
const SAID_MAX_BYTES: usize = 1024;

/// Words of another site's application; none where they are too many.
pub(crate) fn bounded(said: Option<String>) -> Option<String> {
    said.filter(|said| said.len() <= SAID_MAX_BYTES)
}

/// Whether two lists say the same to others.
pub(crate) fn are_alike(a: &[Wait], b: &[Wait]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
}

impl Set {
    /// The first operations that wait here for something else than their turn, in the order of the set. A
    /// write that has no number yet is none of them: no other site knows it.
    pub fn waits(&self) -> Vec<Wait> {
        let waits = self.log.values().filter_map(|entry| {
            Some(Wait {
                why: self.why(entry)?,
                operation: entry.op.id.clone(),
                said: entry.said.clone(),
            })
        });
        waits.take(Wait::MAX).collect()
    }

    /// What an operation waits for here, beside its turn. One that executes once more is done for the others.
    pub fn why(&self, entry: &Entry) -> Option<Why> {
        let State::Waiting(why) = entry.state else {
            return None;
        };
        let is_in_doubt = self.job.as_ref().is_some_and(|job| {
            matches!(job.phase, Phase::Stuck | Phase::Doubt { .. })
                && matches!(&job.work, Work::Replay { id } if *id == entry.op.id)
        });
        let why = if is_in_doubt { Why::InDoubt } else { why };
        (why != Why::Turn).then_some(why)
    }

    /// The same at another member, if that has told so.
    pub fn why_at(&self, site: &SiteName, operation: &OpId) -> Option<Why> {
        let waits = &self.peers.get(site)?.waits;
        let wait = waits.iter().find(|wait| wait.operation == *operation)?;
        Some(wait.why)
    }
}

impl Peer {
    /// Takes note of what operations wait for at the member, after its vectors. An older report does not
    /// count. True when that is news.
    pub(crate) fn learn_waits(&mut self, report: &Report) -> bool {
        let mut waits = std::mem::take(&mut self.waits);
        let before = waits.clone();
        if self.held == report.held && self.done == report.done {
            waits = report.waits.iter().take(Wait::MAX).cloned().collect();
            for wait in &mut waits {
                wait.said = bounded(wait.said.take());
            }
        }
        waits.retain(|wait| self.held.includes(&wait.operation) && !self.done.includes(&wait.operation));
        self.waits = waits;
        self.waits != before
    }
}
