//! Events for all sets that have something left to do, some at a time.

use cheops_replica::{Event, MetaId, Set};
use cheops_store::{Error, Read, ReadSession, Span};
use cheops_types::SiteName;

use crate::rows::UnsettledRecords;

/// Sets of one batch.
const PAGE: usize = 128;

/// A walk over the unsettled sets.
#[derive(Debug)]
pub(super) struct Sweep {
    /// None: the agent has started.
    peer: Option<SiteName>,
    after: Option<String>,
}

impl Sweep {
    pub(super) fn resume() -> Self {
        Self {
            peer: None,
            after: None,
        }
    }

    pub(super) fn peer_up(site: SiteName) -> Self {
        Self {
            peer: Some(site),
            after: None,
        }
    }

    /// The next sets; none when all were visited.
    pub(super) fn next(&mut self, read: &ReadSession) -> Result<Option<Vec<MetaId>>, Error> {
        let mut span = Span::under(&());
        if let Some(after) = &self.after {
            span = span.after(&((), after.clone()));
        }
        let page = read.keys_by::<UnsettledRecords>(&span, PAGE)?;
        self.after = page.last().map(|((), meta)| meta.clone());
        Ok((!page.is_empty()).then(|| page.iter().map(|((), meta)| MetaId::new(meta)).collect()))
    }

    /// What happens to a set. A set that is loaded for the first time resumes by that alone.
    pub(super) fn event(&self, set: &Set) -> Option<Event> {
        let site = self.peer.as_ref()?;
        set.members()
            .contains_key(site)
            .then(|| Event::PeerUp(site.clone()))
    }

    pub(super) fn peer(&self) -> Option<&SiteName> {
        self.peer.as_ref()
    }
}
