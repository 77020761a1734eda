//! Ids as callers see them, and as this site's services know them.

use std::cell::{Cell, RefCell};

use cheops_plan::{Known, Presence, Standing};
use cheops_ports::Coordinator;
use cheops_types::{Code, Limit, Limits, Problem};

use crate::Shared;

/// What an id that is exchanged takes until the text is written anew, beside itself.
const EXCHANGED_BYTES: usize = 64;

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
    /// What further ids may take. An id of one digit can become one of 36, so a text does not bound what it becomes.
    room_bytes: Cell<usize>,
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
    pub(super) fn new(shared: &'a Shared, limits: &Limits, to: To) -> Option<Self> {
        Some(Self {
            to,
            presence: &shared.presence,
            coordinator: &**shared.replication()?,
            own: None,
            room_bytes: Cell::new(limits.gather_body_max_bytes),
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

impl Translation<'_> {
    /// Takes room for an id; false when there is none.
    fn take(&self, id: &str) -> bool {
        let left = self.room_bytes.get().checked_sub(EXCHANGED_BYTES + id.len());
        let has_room = left.is_some();
        self.room_bytes.set(left.unwrap_or(0));
        if !has_room && self.trouble.borrow().failed.is_none() {
            Limit::GatherBody.hit();
            let detail = "the body has more ids of replicas than can be rewritten: ask for smaller pages";
            self.trouble.borrow_mut().failed = Some(Problem::new(Code::BodyTooLarge, detail));
        }
        has_room
    }
}

impl cheops_glue::Ids for Translation<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        let known = self.find(service, kind, id, key)?;
        let new = match (self.to, &known.local) {
            (To::Shown, _) => &known.shown,
            (To::Local, Some(local)) => local,
            (To::Local, None) => {
                self.trouble.borrow_mut().missing = true;
                return None;
            }
        };
        self.take(new).then(|| new.to_string())
    }
}
