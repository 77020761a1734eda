//! Which life of its store this site is in.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

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

/// The lives of the other sites' stores, as they tell them.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<BTreeMap<SiteName, u64>>);

impl Lives {
    /// As they were when this agent ran last: a site that is away now may not have lost its store.
    pub(crate) fn new(known: BTreeMap<SiteName, u64>) -> Self {
        Self(Mutex::new(known))
    }

    pub(crate) fn note(&self, site: &SiteName, incarnation: u64) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(site.clone(), incarnation);
    }

    /// None before the site has told.
    pub(crate) fn of(&self, site: &SiteName) -> Option<u64> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(site).copied()
    }
}
