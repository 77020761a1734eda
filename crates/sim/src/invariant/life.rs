//! Which creates are left when deletes have taken theirs, from the operations alone and by nothing of the engine.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{OpId, Operation, Token, Vector, Verb};

/// All creates and deletes of a set that ever were.
pub(super) struct Life<'o> {
    /// By the request that they are of: a store that was set back may give one a second number.
    creates: BTreeMap<Token, Vec<&'o OpId>>,
    deletes: Vec<&'o Operation>,
}

impl<'o> Life<'o> {
    pub(super) fn of(all: &'o BTreeMap<OpId, Operation>) -> Self {
        Self::without(all, &BTreeSet::new())
    }

    /// The same, where some deletes count for nothing.
    pub(super) fn without(all: &'o BTreeMap<OpId, Operation>, forgone: &BTreeSet<OpId>) -> Self {
        let mut creates: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for op in all.values().filter(|op| matches!(op.verb, Verb::Create(_))) {
            creates.entry(op.token).or_default().push(&op.id);
        }
        let deletes = all
            .values()
            .filter(|op| matches!(op.verb, Verb::Delete) && !forgone.contains(&op.id));
        Self {
            creates,
            deletes: deletes.collect(),
        }
    }

    /// The creates that an operation was written on: those that its origin had executed, and of which it had not
    /// executed a delete.
    pub(super) fn births(&self, op: &Operation) -> BTreeSet<Token> {
        self.alive(&op.after)
    }

    /// The creates within a vector that no delete within it covers.
    pub(super) fn alive(&self, known: &Vector) -> BTreeSet<Token> {
        let deletes = || self.deletes.iter().filter(|delete| known.includes(&delete.id));
        let is_known = |ids: &[&OpId]| ids.iter().any(|id| known.includes(id));
        let is_gone = |ids: &[&OpId]| deletes().any(|delete| Self::covers(delete, ids));
        let alive = self.creates.iter();
        let alive = alive.filter(|(_, ids)| is_known(ids) && !is_gone(ids));
        alive.map(|(token, _)| *token).collect()
    }

    fn covers(delete: &Operation, ids: &[&OpId]) -> bool {
        ids.iter().any(|id| delete.after.includes(id))
    }

    /// Whether a delete takes any of these away.
    pub(super) fn takes_any(&self, delete: &Operation, creates: &BTreeSet<Token>) -> bool {
        let ids = creates.iter().filter_map(|token| self.creates.get(token));
        ids.into_iter().any(|ids| Self::covers(delete, ids))
    }

    /// Whether all of these are within a vector, and none of them is left.
    pub(super) fn are_over(&self, creates: &BTreeSet<Token>, known: &Vector) -> bool {
        let alive = self.alive(known);
        let is_known = |token| {
            let ids: Option<&Vec<&OpId>> = self.creates.get(token);
            ids.is_some_and(|ids| ids.iter().any(|id| known.includes(id)))
        };
        creates
            .iter()
            .all(|token| is_known(token) && !alive.contains(token))
    }

    /// Whether something of an operation is left, for who knows so much.
    pub(super) fn counts(&self, op: &Operation, known: &Vector) -> bool {
        let alive = self.alive(known);
        match &op.verb {
            Verb::Create(_) => alive.contains(&op.token),
            Verb::Delete => false,
            _ => !self.births(op).is_disjoint(&alive),
        }
    }
}
