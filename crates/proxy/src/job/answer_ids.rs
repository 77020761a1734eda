//! The ids of replicas in an answer.

use cheops_plan::{Decided, Party};

/// Which ids an answer of this site's service has for replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerIds {
    /// This site's own.
    Local,
    /// Those that are the same at all sites.
    Shown,
    /// Those too, and what is a replica is told: the answer may become part of a merged list.
    Told,
}

impl AnswerIds {
    pub(crate) fn of(decided: &Decided, caller: Party) -> Self {
        let Some(concern) = &decided.concern else {
            return Self::Local;
        };
        match caller {
            // A service knows its own site's ids, but in a list of several sites they would mean nothing.
            _ if decided.is_merged || concern.container.is_some() => Self::Told,
            Party::Peer => Self::Told,
            Party::User => Self::Shown,
            Party::Service => Self::Local,
        }
    }
}
