//! Events for many sets, some at a time.

use std::collections::BTreeSet;

use cheops_replica::{Event, MetaId, Set};
use cheops_store::{Error, Read, ReadSession, Span};
use cheops_types::SiteName;

use crate::rows::{Sets, UnsettledRecords};

/// Sets of one batch.
const PAGE: usize = 128;

/// A walk over the sets: the unsettled ones, or all, and those of which a site has missed something.
#[derive(Debug)]
pub(super) struct Sweep {
    why: Why,
    after: Option<String>,
    /// Sets about which something did not get to the site, and that were not visited yet.
    missed: BTreeSet<MetaId>,
}

/// A set that is to be told.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) meta: MetaId,
    /// Something about it did not get to the site.
    pub(super) has_missed: bool,
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

    pub(super) fn peer_up(site: SiteName, missed: Vec<MetaId>) -> Self {
        let mut sweep = Self::new(Why::PeerUp(site));
        sweep.add_missed(missed);
        sweep
    }

    pub(super) fn add_missed(&mut self, missed: Vec<MetaId>) {
        self.missed.extend(missed);
    }

    pub(super) fn peer_life(site: SiteName, incarnation: u64) -> Self {
        Self::new(Why::PeerLife(site, incarnation))
    }

    fn new(why: Why) -> Self {
        Self {
            why,
            after: None,
            missed: BTreeSet::new(),
        }
    }

    /// The next sets; none when all were visited.
    pub(super) fn next(&mut self, read: &ReadSession) -> Result<Option<Vec<Visit>>, Error> {
        let page = match &self.why {
            Why::PeerLife(..) => self.all(read)?,
            Why::Start | Why::PeerUp(_) => self.unsettled(read)?,
        };
        let Some(last) = page.last() else {
            // `after` stays: what else was missed meanwhile is all that is left.
            return Ok(self.next_missed());
        };
        self.after = Some(last.clone());
        let visits = page.iter().map(|meta| {
            let meta = MetaId::new(meta);
            let has_missed = self.missed.remove(&meta);
            Visit { meta, has_missed }
        });
        Ok(Some(visits.collect()))
    }

    /// Sets at rest here. The site may still wait for what it has missed of them.
    fn next_missed(&mut self) -> Option<Vec<Visit>> {
        let next = std::iter::from_fn(|| self.missed.pop_first()).take(PAGE);
        let visits: Vec<_> = next
            .map(|meta| Visit {
                meta,
                has_missed: true,
            })
            .collect();
        (!visits.is_empty()).then_some(visits)
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
    pub(super) fn event(&self, set: &Set, has_missed: bool) -> Option<Event> {
        let is_member = |site| set.members().contains_key(site);
        match &self.why {
            Why::Start => None,
            Why::PeerUp(site) if !is_member(site) => None,
            Why::PeerUp(site) if has_missed => Some(Event::PeerMissed(site.clone())),
            Why::PeerUp(site) => Some(Event::PeerUp(site.clone())),
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
