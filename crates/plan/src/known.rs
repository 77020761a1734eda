//! A replica set, as far as a decision depends on it.

use std::sync::Arc;

use cheops_types::{Consistency, Share, SiteName, Span, SpanForm};

/// A replica set as the data plane sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Names the set at all its sites.
    pub meta: Arc<str>,
    /// The id that callers see: the meta-id, or the name where the client chose it.
    pub shown: Arc<str>,
    /// The id of this site's replica; none while there is none.
    pub local: Option<Arc<str>>,
    pub sites: Vec<SiteName>,
    pub standing: Standing,
    /// Who decides what is written to it.
    pub consistency: Consistency,
    /// How it spans its sites; none: a replica at each.
    pub span: Option<Arc<Span>>,
    /// How counts in it are divided.
    pub shares: Arc<[Share]>,
}

impl Known {
    pub fn is_member(&self) -> bool {
        self.standing == Standing::Member
    }

    /// The sites of a container that spans them, the prime site first; none for anything else.
    pub fn extents(&self) -> Option<Vec<SiteName>> {
        let span = self.span.as_ref()?;
        (span.form == SpanForm::Container).then(|| span.ordered(&self.sites))
    }

    /// Whether counts in it are divided among its sites.
    pub fn is_divided(&self) -> bool {
        self.span
            .as_ref()
            .is_some_and(|span| span.form == SpanForm::Divided)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// This site takes part.
    Member,
    /// The resource was deleted.
    Deleted,
    /// This site is no longer part of the set.
    Out,
}
