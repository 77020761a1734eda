//! Which life of its store this site is in.

use std::sync::{Mutex, PoisonError};

use cheops_replica::{Hello, Site};
use cheops_types::SiteName;

/// The site as it was committed last, for those who are not the engine.
#[derive(Debug)]
pub(crate) struct Life(Mutex<Site>);

impl Life {
    pub(crate) fn new(site: Site) -> Self {
        Self(Mutex::new(site))
    }

    pub(crate) fn set(&self, site: &Site) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(site);
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.with(Site::incarnation)
    }

    pub(crate) fn hello(&self) -> Hello {
        self.with(Site::hello)
    }

    pub(crate) fn has_confirmed(&self, site: &SiteName) -> bool {
        self.with(|known| known.has_confirmed(site))
    }

    fn with<T>(&self, read: impl FnOnce(&Site) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
