//! One site's answer as a page of a list.

use std::sync::Arc;

use bytes::Bytes;
use cheops_glue::{ListPage, ListShape, NotAList};
use cheops_types::{Code, Limit, ServiceName};
use http::response;

use crate::{World, attempt::Places, core::Core, job::Job, memory::Lease};

/// A site's page with its place in memory.
pub(super) struct Page {
    pub(super) page: ListPage,
    pub(super) held: Lease,
}

/// A site's answer that may be a page, with all that reading it takes: it may be done beside the core.
pub(super) struct Reading {
    world: Arc<World>,
    shape: Arc<ListShape>,
    service: ServiceName,
    path: String,
    places: Option<Places>,
    bytes: Bytes,
    held: Lease,
}

/// What an answer is.
pub(super) enum Read {
    Page(Page),
    Other(Bytes, Lease),
}

impl Reading {
    pub(super) fn new(
        job: &Job,
        shape: &Arc<ListShape>,
        head: &mut response::Parts,
        bytes: Bytes,
        held: Lease,
    ) -> Self {
        Self {
            world: job.core.world.clone(),
            shape: shape.clone(),
            service: job.service.name.clone(),
            path: job.head.uri.path().to_owned(),
            places: head.extensions.remove::<Places>(),
            bytes,
            held,
        }
    }

    pub(super) async fn read(self, core: &Core) -> Result<Read, Code> {
        let read = core.work(self.bytes.len(), move || self.run()).await;
        read.and_then(|read| read)
    }

    fn run(mut self) -> Result<Read, Code> {
        let limits = &self.world.limits;
        let page = self.shape.read_up_to(self.bytes.clone(), limits.gather_items_max);
        let mut page = match page {
            Ok(page) => page,
            Err(NotAList::TooManyItems { .. } | NotAList::TooLong) => {
                Limit::GatherItems.hit();
                return Err(Code::BodyTooLarge);
            }
            Err(_) => return Ok(Read::Other(self.bytes, self.held)),
        };
        if let Some(places) = self.places.take() {
            self.mark(&mut page, places);
        }
        self.held.grow(page.parsed_bytes(), limits)?;
        let held = self.held;
        Ok(Read::Page(Page { page, held }))
    }

    /// Says which items of the page are replicas, so that the merged list has each once.
    fn mark(&self, page: &mut ListPage, places: Places) {
        if let Some(address) = self.world.profile.address(&self.service, &self.path) {
            let places = places.only(|site| self.world.sites.binary_search(site).is_ok());
            page.mark(&address, places.of_list(page.len()));
        }
    }
}
