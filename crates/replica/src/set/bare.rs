//! Operations that a site holds without their payloads. They count as held there only when the payload is too.

use cheops_types::KeptBody;

use super::{Entry, Peer, Set};
use crate::{OpId, Operation, Report};

/// How many of them a site tells. One that tells so many may have more: then none of its spooled ones counts.
pub(crate) const BARE_MAX: usize = 64;

impl Operation {
    /// The hash of its payload, where that is not a part of it.
    pub fn payload(&self) -> Option<&[u8; 32]> {
        match &self.request.body {
            KeptBody::Inline(_) => None,
            KeptBody::Spooled { hash, .. } => Some(hash),
        }
    }
}

impl Set {
    /// The operations of this site whose payloads are still to be fetched.
    pub fn bare(&self) -> impl Iterator<Item = &Operation> {
        self.log
            .values()
            .filter(|entry| entry.bare)
            .map(|entry| &entry.op)
    }

    pub(crate) fn told_bare(&self) -> Vec<OpId> {
        self.bare().take(BARE_MAX).map(|op| op.id.clone()).collect()
    }

    /// Whether a member has what it needs to pass an operation on.
    pub(crate) fn holds_whole(&self, peer: &Peer, id: &OpId) -> bool {
        peer.held.includes(id) && !peer.is_bare(id, self.entry(id))
    }
}

impl Peer {
    /// Whether the member lacks the payload of an operation that it holds, as far as it has told.
    fn is_bare(&self, id: &OpId, entry: Option<&Entry>) -> bool {
        let is_spooled = entry.is_some_and(|entry| entry.op.payload().is_some());
        let is_told = self.bare.contains(id) || self.bare.len() >= BARE_MAX;
        is_spooled && is_told
    }

    /// Takes note of what the member lacks. True when that is news.
    pub(crate) fn learn_bare(&mut self, report: &Report) -> bool {
        let bare: Vec<_> = report.bare.iter().take(BARE_MAX).cloned().collect();
        let is_news = self.bare != bare;
        self.bare = bare;
        is_news
    }
}
