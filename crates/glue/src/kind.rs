//! What replication must know of one kind of resource.

mod body;
mod cross;
mod difference;
mod effect;
mod progress;
mod render;
mod rules;
mod search;
mod selected;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use body::Reference;
pub(crate) use cross::{Count, Taken};
pub use cross::{NotCounted, Refusal};
pub use difference::{Changed, Recorded};
pub use effect::{Effect, Meaning, Touches};
pub use progress::Stage;
pub use render::Rendered;
pub(crate) use rules::{
    Action, AnswerRule, Marker, Patch, PatchType, Progress, QueryReference, Referred, Rules, Spot, Update,
    UpdateForm, Upsert, VerbWord,
};
pub use search::{Search, Sighting};

use crate::{
    ListShape,
    pattern::{Pattern, Segments},
};

/// A kind of resource: by glue, or by the ordinary conventions. Cheap to clone.
///
/// A *key* is what tells a resource among all of its kind at one site: the ids in its path, its own last.
#[derive(Debug, Clone)]
pub struct Kind {
    name: Arc<str>,
    item: Arc<Pattern>,
    collection: Arc<Pattern>,
    list: Arc<ListShape>,
    rules: Arc<Rules>,
}

/// Who chooses the id of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdRule {
    /// The application, at each site another one.
    Server,
    /// The caller, in the body of the create: the same at all sites.
    Client,
    /// The caller may, and where it does not the agent does: the same at all sites.
    Settable,
}

/// How meta-ids are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaFormat {
    Uuid,
    /// The 32 digits of a UUID.
    Hex,
    /// Whole numbers that the application never reaches.
    Integer {
        first: u64,
        last: u64,
    },
    /// Ids are whole numbers and no range is given: nothing of this kind can be replicated.
    None,
}

/// How a create is recognised after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognise<'k> {
    Nothing,
    /// The application takes a key in this header and executes it once.
    Key {
        header: &'k str,
    },
    /// The operation's token stands in the resource.
    Marker,
    /// The agent chose the id.
    ChosenId,
}

impl Kind {
    pub(crate) fn new(
        name: &str,
        item: Pattern,
        collection: Pattern,
        list: Arc<ListShape>,
        rules: Rules,
    ) -> Self {
        Self {
            name: name.into(),
            item: Arc::new(item),
            collection: Arc::new(collection),
            list,
            rules: Arc::new(rules),
        }
    }

    /// A kind that nothing is known of but its name, which is its collection's path.
    pub(crate) fn by_convention(name: &str, list: &Arc<ListShape>, rules: &Arc<Rules>) -> Self {
        let collection = Pattern::by_convention(Segments::of(name));
        Self {
            name: name.into(),
            item: Arc::new(collection.with_placeholder()),
            collection: Arc::new(collection),
            list: Arc::clone(list),
            rules: Arc::clone(rules),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id_rule(&self) -> IdRule {
        self.rules.chosen_by
    }

    pub fn meta_format(&self) -> MetaFormat {
        self.rules.meta_format
    }

    /// Whether there is more to a resource than its document: what the glue calls its parts.
    pub fn has_parts(&self) -> bool {
        !self.rules.parts.is_empty()
    }

    /// Whether ids in bodies of this kind can be others for callers than for this site's application.
    pub fn exchanges_ids(&self) -> bool {
        let rules = &self.rules;
        rules.chosen_by == IdRule::Server || !rules.references.is_empty() || !rules.links.is_empty()
    }

    /// How a create is recognised. `is_named`: the caller chose the id, so that meeting it proves nothing.
    pub fn recognise(&self, is_named: bool) -> Recognise<'_> {
        let rules = &self.rules;
        match (&rules.idempotency_key, &rules.marker) {
            _ if rules.chosen_by == IdRule::Settable && !is_named => Recognise::ChosenId,
            (Some(header), _) => Recognise::Key { header },
            (None, Some(_)) => Recognise::Marker,
            (None, None) => Recognise::Nothing,
        }
    }

    /// How the create with this body is recognised. A caller's own text at the place of the marker stays, and
    /// then there is no marker.
    pub fn recognise_in(&self, is_named: bool, body: &[u8]) -> Recognise<'_> {
        match self.recognise(is_named) {
            Recognise::Marker if !self.has_room_for_marker(body) => Recognise::Nothing,
            other => other,
        }
    }

    /// The headers that are recorded with an operation, in lower case.
    pub fn recorded_headers(&self) -> &[String] {
        &self.rules.recorded_headers
    }

    /// The headers that carry the caller's credential, in lower case.
    pub fn credential_headers(&self) -> &[String] {
        &self.rules.credential_headers
    }

    /// The headers that hold only where the request was accepted, in lower case.
    pub fn precondition_headers(&self) -> &[String] {
        &self.rules.precondition_headers
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }
}
