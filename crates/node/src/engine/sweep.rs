//! Events for many sets, some at a time.

use cheops_replica::{Event, MetaId, Set};
use cheops_store::{Error, Read, ReadSession, Span};
use cheops_types::SiteName;

use crate::rows::{Sets, UnsettledRecords};

/// Sets of one batch.
const PAGE: usize = 128;

/// A walk over the sets: the unsettled ones, or all.
#[derive(Debug)]
pub(super) struct Sweep {
    why: Why,
    after: Option<String>,
}

#[derive(Debug)]
enum Why {
    /// The agent has started.
    Start,
    /// The site can be reached again.
    PeerUp(SiteName),
    /// The site's store has begun a new life. It concerns settled sets too.
    PeerLife(SiteName, u64),
}

impl Sweep {
    pub(super) fn resume() -> Self {
        Self::new(Why::Start)
    }

    pub(super) fn peer_up(site: SiteName) -> Self {
        Self::new(Why::PeerUp(site))
    }

    pub(super) fn peer_life(site: SiteName, incarnation: u64) -> Self {
        Self::new(Why::PeerLife(site, incarnation))
    }

    fn new(why: Why) -> Self {
        Self { why, after: None }
    }

    /// The next sets; none when all were visited.
    pub(super) fn next(&mut self, read: &ReadSession) -> Result<Option<Vec<MetaId>>, Error> {
        let page = match &self.why {
            Why::PeerLife(..) => self.all(read)?,
            Why::Start | Why::PeerUp(_) => self.unsettled(read)?,
        };
        self.after = page.last().cloned();
        Ok((!page.is_empty()).then(|| page.iter().map(|meta| MetaId::new(meta)).collect()))
    }

    fn unsettled(&self, read: &ReadSession) -> Result<Vec<String>, Error> {
        let mut span = Span::under(&());
        if let Some(after) = &self.after {
            span = span.after(&((), after.clone()));
        }
        let page = read.keys_by::<UnsettledRecords>(&span, PAGE)?;
        Ok(page.into_iter().map(|((), meta)| meta).collect())
    }

    fn all(&self, read: &ReadSession) -> Result<Vec<String>, Error> {
        let mut span = Span::all();
        if let Some(after) = &self.after {
            span = span.after(after);
        }
        let page = read.scan::<Sets>(&span, PAGE)?;
        Ok(page.into_iter().map(|(meta, _)| meta).collect())
    }

    /// What happens to a set. A set that is loaded for the first time resumes by that alone.
    pub(super) fn event(&self, set: &Set) -> Option<Event> {
        let is_member = |site| set.members().contains_key(site);
        match &self.why {
            Why::Start => None,
            Why::PeerUp(site) => is_member(site).then(|| Event::PeerUp(site.clone())),
            Why::PeerLife(site, incarnation) => is_member(site).then(|| Event::PeerReset {
                site: site.clone(),
                incarnation: *incarnation,
            }),
        }
    }

    /// The site that can be reached again, if it is about one.
    pub(super) fn peer(&self) -> Option<&SiteName> {
        match &self.why {
            Why::PeerUp(site) => Some(site),
            _ => None,
        }
    }

    /// The site whose store has begun a new life, if it is about one.
    pub(super) fn life(&self) -> Option<(&SiteName, u64)> {
        match &self.why {
            Why::PeerLife(site, incarnation) => Some((site, *incarnation)),
            _ => None,
        }
    }
}
