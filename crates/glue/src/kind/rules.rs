//! The rules of a kind, as the glue gives them.

use cheops_types::ServiceName;

use super::{Count, Effect, IdRule, Meaning, MetaFormat, Taken};
use crate::{
    Pointer,
    pattern::Pattern,
    selector::{Selection, Selector},
};

#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Where one resource stands in requests and answers about it. All pointers below are relative to it;
    /// items of lists are documents themselves.
    pub(crate) document: Pointer,
    /// Where an answer tells the id; none: in `Location`, else at `/id`.
    pub(crate) id: Option<Pointer>,
    pub(crate) chosen_by: IdRule,
    /// Where a request may tell the id.
    pub(crate) name: Pointer,
    /// Where a request may tell the beginning of an id that is completed.
    pub(crate) generate: Option<Pointer>,
    pub(crate) meta_format: MetaFormat,
    pub(crate) marker: Option<Marker>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) recorded_headers: Vec<String>,
    pub(crate) credential_headers: Vec<String>,
    pub(crate) precondition_headers: Vec<String>,
    pub(crate) preconditions: Vec<Selector>,
    pub(crate) ignore: Vec<Selector>,
    pub(crate) site_owned: Vec<Selector>,
    pub(crate) references: Vec<(Selector, Referred)>,
    pub(crate) query_references: Vec<QueryReference>,
    pub(crate) links: Vec<Selector>,
    pub(crate) patch: Vec<PatchType>,
    /// What a `PUT` of the item is.
    pub(crate) put: Patch,
    /// Requests to an item that make it where there is none.
    pub(crate) upsert: Vec<Upsert>,
    /// How the agent writes a state or a change of it.
    pub(crate) update: Update,
    /// How an asynchronous create is followed.
    pub(crate) progress: Option<Progress>,
    /// What a resource has that is about to go: until then its name is taken.
    pub(crate) leaving: Option<Pointer>,
    pub(crate) actions: Vec<Action>,
    /// What stands below an item and is no part of its document.
    pub(crate) parts: Vec<Pattern>,
    /// Query parameters, with their value or any, of requests without effect.
    pub(crate) effect_free: Vec<(String, Option<String>)>,
    /// What a request's body has if it is without effect; not relative to the document.
    pub(crate) effect_free_bodies: Vec<Pointer>,
    pub(crate) answers: Vec<AnswerRule>,
    /// Whether it can span sites and contain others.
    pub(crate) spans: bool,
    /// What is divided among sites.
    pub(crate) counts: Vec<Count>,
    /// What is added up when the parts are shown as one.
    pub(crate) sums: Vec<Pointer>,
    pub(crate) taken: Option<Taken>,
    /// What is added to the query of a create that is only to be tried.
    pub(crate) rehearsal: Option<String>,
    /// Where ids stand in a body; made of the above by [`Rules::finish`].
    pub(crate) spots: Selection<Spot>,
}

/// What stands at a place of a body.
#[derive(Debug, Clone)]
pub(crate) enum Spot {
    Own,
    Reference(Referred),
    Link,
}

/// The kind that an id belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Referred {
    pub(crate) service: ServiceName,
    pub(crate) kind: String,
}

#[derive(Debug, Clone)]
pub(crate) struct QueryReference {
    pub(crate) parameter: String,
    pub(crate) referred: Referred,
}

#[derive(Debug, Clone)]
pub(crate) struct Marker {
    pub(crate) pointer: Pointer,
    /// The parameter by which lists are filtered; none: the pages are searched.
    pub(crate) query: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct PatchType {
    /// In lower case, without parameters.
    pub(crate) content_type: String,
    pub(crate) patch: Patch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patch {
    Merge,
    Replace,
    /// Recorded as the difference that it made.
    Difference,
    Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upsert {
    pub(crate) method: String,
    /// In lower case, without parameters; none: any.
    pub(crate) content_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) method: String,
    pub(crate) form: UpdateForm,
    pub(crate) content_type: String,
}

/// What the body of an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateForm {
    /// The whole document.
    Replace,
    /// Only the members that change (RFC 7396).
    Merge,
    /// A list of changes (RFC 6902).
    JsonPatch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) pointer: Pointer,
    pub(crate) done: Vec<String>,
    pub(crate) failed: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) method: String,
    pub(crate) path: Pattern,
    pub(crate) effect: Effect,
    /// What it changes of the document; empty: anything.
    pub(crate) touches: Vec<Pointer>,
}

/// The meaning of answers between two statuses, for one verb or for all.
#[derive(Debug, Clone)]
pub(crate) struct AnswerRule {
    pub(crate) verb: Option<VerbWord>,
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerbWord {
    Create,
    Replace,
    Merge,
    Action,
    Delete,
}

impl Default for Rules {
    fn default() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let rules = Self {
            document: Pointer::root(),
            id: None,
            chosen_by: IdRule::Server,
            name: Pointer::to_member("id"),
            generate: None,
            meta_format: MetaFormat::Uuid,
            marker: None,
            idempotency_key: None,
            recorded_headers: texts(&["content-type"]),
            credential_headers: texts(&["authorization", "x-auth-token", "cookie"]),
            precondition_headers: texts(&[
                "if-match",
                "if-none-match",
                "if-modified-since",
                "if-unmodified-since",
            ]),
            preconditions: Vec::new(),
            ignore: Vec::new(),
            site_owned: Vec::new(),
            references: Vec::new(),
            query_references: Vec::new(),
            links: Vec::new(),
            patch: vec![
                PatchType::merge("application/merge-patch+json"),
                PatchType::merge("application/json"),
            ],
            put: Patch::Replace,
            upsert: Vec::new(),
            update: Update {
                method: "PUT".to_owned(),
                form: UpdateForm::Replace,
                content_type: "application/json".to_owned(),
            },
            progress: None,
            leaving: None,
            actions: Vec::new(),
            parts: Vec::new(),
            effect_free: Vec::new(),
            effect_free_bodies: Vec::new(),
            answers: Vec::new(),
            spans: false,
            counts: Vec::new(),
            sums: Vec::new(),
            taken: None,
            rehearsal: None,
            spots: Selection::default(),
        };
        rules.finish()
    }
}

impl PatchType {
    fn merge(content_type: &str) -> Self {
        Self {
            content_type: content_type.to_owned(),
            patch: Patch::Merge,
        }
    }
}

impl Rules {
    pub(crate) fn finish(mut self) -> Self {
        let mut spots = Selection::default();
        spots.insert(&self.own_id().clone().into(), Spot::Own);
        for (selector, referred) in &self.references {
            spots.insert(selector, Spot::Reference(referred.clone()));
        }
        for selector in &self.links {
            spots.insert(selector, Spot::Link);
        }
        self.spots = spots;
        self
    }

    /// Where a resource's document has its own id.
    pub(crate) fn own_id(&self) -> &Pointer {
        self.id.as_ref().unwrap_or(&self.name)
    }

    /// What one replica has and another one has not, or in another way: never sent to make or overwrite one.
    pub(crate) fn of_one_replica(&self) -> impl Iterator<Item = Selector> {
        // An id that is the same at all sites is part of the state.
        let own = (self.chosen_by == IdRule::Server).then(|| self.own_id().clone());
        let marker = self.marker.as_ref().map(|marker| marker.pointer.clone());
        let lists = [&self.ignore, &self.site_owned, &self.preconditions];
        own.into_iter()
            .chain(marker)
            .map(Selector::from)
            .chain(lists.into_iter().flatten().cloned())
    }
}
