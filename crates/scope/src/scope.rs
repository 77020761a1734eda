//! What the caller asked.

use cheops_types::ServiceName;

use crate::{Loc, Span};

/// A scope, as written or in its full form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A location for the service that the request addresses, whichever that is.
    Bare(Loc),
    /// The full form: one entry per service, at least one.
    Full(Vec<Entry>),
}

/// `service: location`. Like [`Loc`], equal whatever its place in the text.
#[derive(Debug, Clone)]
pub struct Entry {
    pub service: ServiceName,
    pub(crate) service_span: Span,
    pub loc: Loc,
}

// === impl Scope ===

impl Scope {
    /// Where `service`, which the request addresses, executes. `None` when the scope does not speak of it.
    pub fn loc_of(&self, service: &str) -> Option<&Loc> {
        match self {
            Self::Bare(loc) => Some(loc),
            Self::Full(entries) => entries
                .iter()
                .find(|entry| entry.service.as_str() == service)
                .map(|entry| &entry.loc),
        }
    }

    /// The services that it names; none where it speaks only of the one that the request addresses.
    pub fn services(&self) -> impl Iterator<Item = &ServiceName> {
        let entries = match self {
            Self::Bare(_) => &[][..],
            Self::Full(entries) => entries,
        };
        entries.iter().map(|entry| &entry.service)
    }

    /// The form that travels with a workflow: it means the same at every service.
    pub fn to_full(&self, addressed: &ServiceName) -> Self {
        match self {
            Self::Bare(loc) => Self::Full(vec![Entry::new(addressed.clone(), loc.clone())]),
            Self::Full(_) => self.clone(),
        }
    }

    pub(crate) fn locs(&self) -> impl Iterator<Item = &Loc> {
        let (bare, entries) = match self {
            Self::Bare(loc) => (Some(loc), &[][..]),
            Self::Full(entries) => (None, entries.as_slice()),
        };
        bare.into_iter().chain(entries.iter().map(|entry| &entry.loc))
    }
}

// === impl Entry ===

impl Entry {
    pub fn new(service: ServiceName, loc: Loc) -> Self {
        Self {
            service,
            loc,
            service_span: Span::default(),
        }
    }

    /// Where the service's name stands.
    pub fn service_span(&self) -> Span {
        self.service_span
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.service == other.service && self.loc == other.loc
    }
}

impl Eq for Entry {}
