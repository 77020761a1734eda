//! Making one page out of the pages of several sites.

use std::sync::Arc;

use bytes::Bytes;
use cheops_glue::{ListPage, ListShape, Merged, Part, Round, Versions};
use cheops_types::{Code, Limits, Problem};

use super::page::Page;
use crate::{World, core::Core, job::Job, memory::Lease};

/// The pages of a round, with all that making one of them takes: it may be done beside the core.
pub(super) struct Merging {
    round: Round,
    shape: Option<Arc<ListShape>>,
    world: Arc<World>,
    pages: Vec<Option<ListPage>>,
    held: Lease,
    body_bytes: usize,
}

/// A page of the merged list.
pub(super) struct Written {
    pub(super) body: Bytes,
    pub(super) parts: Vec<Part>,
    pub(super) held: Lease,
}

impl Merging {
    pub(super) fn new(job: &Job, round: Round) -> Self {
        Self {
            round,
            shape: job.list.clone(),
            world: job.core.world.clone(),
            pages: Vec::new(),
            held: Lease::none(&job.core.shared.memory),
            body_bytes: 0,
        }
    }

    /// Adds the next site's page, if it gave one.
    pub(super) fn add(&mut self, page: Option<Page>) {
        // What is written in another way than the first cannot stand beside it.
        let first = self.pages.iter().flatten().next();
        let fits = |page: &Page| first.is_none_or(|first| first.is_like(&page.page));
        let page = page.filter(fits).map(|Page { page, held }| {
            self.held.join(held);
            self.body_bytes += page.bytes();
            page
        });
        self.pages.push(page);
    }

    /// Whether the pages so far decide the merged one.
    pub(super) async fn settled(self, core: &Core) -> Result<(Self, bool), Code> {
        if let Some(is_settled) = self.round.is_settled_at_once(&self.pages) {
            return Ok((self, is_settled));
        }
        let body_bytes = self.body_bytes;
        let work = move || {
            let is_settled = self.round.is_settled(&self.pages);
            (self, is_settled)
        };
        core.work(body_bytes, work).await
    }

    /// Whether no site gave a page.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.iter().all(Option::is_none)
    }

    /// Makes the page; a code where it could not be begun.
    pub(super) async fn merge(self, core: &Core) -> Result<Result<Written, Problem>, Code> {
        core.work(self.body_bytes, move || self.run()).await
    }

    fn run(self) -> Result<Written, Problem> {
        let Self { pages, mut held, .. } = self;
        let limits = &self.world.limits;
        let busy = |code: Code| Problem::new(code, "the lists of the sites take more memory than there is");
        let round = &self.round;
        held.grow(round.work_bytes(&pages), limits).map_err(busy)?;
        let versions = versions(self.shape.as_deref(), round, &pages, limits);
        let Merged { body, parts, .. } = round.merge(&pages)?;
        drop(pages);
        let body = match &self.shape {
            Some(shape) => shape.with_versions(&body, &versions).unwrap_or(body),
            None => body,
        };
        held.resize(body.len(), limits).map_err(busy)?;
        let body = body.into();
        Ok(Written { body, parts, held })
    }
}

/// The versions of the sites' lists, where the list can be watched.
fn versions(
    shape: Option<&ListShape>,
    round: &Round,
    pages: &[Option<ListPage>],
    limits: &Limits,
) -> Versions {
    let mut versions = Versions::default();
    let Some(shape) = shape.filter(|shape| shape.watch.is_some()) else {
        return versions;
    };
    let max_bytes = limits.watch_version_max_bytes;
    for (fetch, page) in round.fetches().iter().zip(pages) {
        if let Some(version) = page.as_ref().and_then(|page| shape.version_of(page, max_bytes)) {
            versions.set(&fetch.site, &version);
        }
    }
    versions
}
