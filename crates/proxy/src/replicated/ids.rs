//! Ids as callers see them, and as this site's services know them.

use std::cell::RefCell;

use cheops_plan::{Coordinator, Known, Presence, Standing};
use cheops_types::Problem;

use crate::core::Core;

/// Which way ids are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// To those of this site's replicas.
    Local,
    /// To those that are the same at all sites.
    Shown,
}

/// A translation of the ids of replicas; other ids stay as they are.
pub(super) struct Translation<'a> {
    to: To,
    presence: &'a Presence,
    coordinator: &'a dyn Coordinator,
    /// A set that may be deleted by now, with its kind.
    own: Option<(&'a str, &'a Known)>,
    trouble: RefCell<Trouble>,
}

#[derive(Default)]
struct Trouble {
    /// A replica that this site is to have, but has not yet.
    missing: bool,
    failed: Option<Problem>,
}

impl<'a> Translation<'a> {
    /// None where nothing can be replicated.
    pub(super) fn new(core: &'a Core, to: To) -> Option<Self> {
        Some(Self {
            to,
            presence: &core.shared.presence,
            coordinator: &**core.shared.replication()?,
            own: None,
            trouble: RefCell::default(),
        })
    }

    pub(super) fn with(mut self, kind: &'a str, known: &'a Known) -> Self {
        self.own = Some((kind, known));
        self
    }

    /// Whether everything could be translated, and whether a replica is missing here.
    pub(super) fn check(&self) -> Result<bool, Problem> {
        let trouble = self.trouble.take();
        match trouble.failed {
            Some(problem) => Err(problem),
            None => Ok(trouble.missing),
        }
    }

    fn find(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<Known> {
        if let Some((own_kind, known)) = self.own
            && kind == own_kind
            && known.local.as_deref() == Some(id)
        {
            return Some(known.clone());
        }
        if !self.presence.has_id(service, kind, id) {
            return None;
        }
        match self.coordinator.find(service, kind, id, key) {
            Ok(known) => known.filter(|known| known.standing == Standing::Member),
            Err(problem) => {
                self.trouble.borrow_mut().failed.get_or_insert(problem);
                None
            }
        }
    }
}

impl cheops_glue::Ids for Translation<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        let known = self.find(service, kind, id, key)?;
        match (self.to, &known.local) {
            (To::Shown, _) => Some(known.shown.to_string()),
            (To::Local, Some(local)) => Some(local.to_string()),
            (To::Local, None) => {
                self.trouble.borrow_mut().missing = true;
                None
            }
        }
    }
}
