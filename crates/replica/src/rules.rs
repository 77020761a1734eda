//! What the engine must know of the application at this site.

use crate::{LocalId, MetaId, Operation, Record, Verb};

/// What an answer to a replayed operation means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Done,
    /// For good: the replica is degraded.
    Refused,
    NeedsCredentials,
    /// Tried again slowly, and shown.
    Blocked,
    /// It did not execute; tried again with backoff.
    Retry,
    /// It may have executed.
    Unknown,
}

/// Whether another set is ready for an operation that refers to it, at this site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The site has nothing to do with that set: nothing to wait for.
    Uninvolved,
    /// Its create has not executed here yet.
    Pending,
    Here,
    Gone,
}

/// The application's side of the contract, given as data by the glue.
pub trait Rules {
    /// What the answer to an operation means. Overrides of the glue go here.
    fn reading(&self, operation: &Operation, status: u16) -> Reading {
        default_reading(operation, status)
    }

    /// What is known here about another set.
    fn presence(&self, _set: &MetaId) -> Presence {
        Presence::Uninvolved
    }

    /// Whether a resource of the application here is the replica of another set than that of the record. Then no other site's
    /// word, and no answer that the name is taken, makes it this one's.
    fn is_anothers(&self, _record: &Record, _local: &LocalId) -> bool {
        false
    }
}

/// The table of the contract.
///
/// 500, 502 and 504 do not say whether something happened. Where a repetition is harmless that makes
/// no difference; elsewhere the execution is in doubt, as it is with silence.
pub fn default_reading(operation: &Operation, status: u16) -> Reading {
    match (status, &operation.verb) {
        (200..=299, _) | (404 | 410, Verb::Delete) => Reading::Done,
        (409, Verb::Create(_)) => Reading::Refused,
        (401, _) => Reading::NeedsCredentials,
        // One of 300 to 399 points elsewhere: nothing has executed, and somebody has to see why.
        (300..=399 | 403 | 404, _) => Reading::Blocked,
        (408 | 409 | 423 | 425 | 429 | 503, _) => Reading::Retry,
        (400..=499, _) => Reading::Refused,
        _ => Reading::Unknown,
    }
}

/// The ordinary conventions, with no set to wait for.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainRules;

impl Rules for PlainRules {}
