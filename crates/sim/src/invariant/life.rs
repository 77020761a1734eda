//! Which creates are left when deletes have taken theirs, from the operations alone and by nothing of the engine.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{OpId, Operation, Vector, Verb};

/// All operations of a set that ever were, and what became of its creates.
pub(super) struct Life<'o> {
    creates: Vec<&'o Operation>,
    deletes: Vec<&'o Operation>,
}

impl<'o> Life<'o> {
    pub(super) fn of(all: &'o BTreeMap<OpId, Operation>) -> Self {
        let of = |is: fn(&Verb) -> bool| all.values().filter(|op| is(&op.verb)).collect();
        Self {
            creates: of(|verb| matches!(verb, Verb::Create(_))),
            deletes: of(|verb| matches!(verb, Verb::Delete)),
        }
    }

    /// The creates that an operation was written on: those that its origin had executed, and of which it had not
    /// executed a delete.
    pub(super) fn births(&self, op: &Operation) -> BTreeSet<OpId> {
        self.alive(&op.after)
    }

    /// The creates within a vector that no delete within it covers.
    pub(super) fn alive(&self, known: &Vector) -> BTreeSet<OpId> {
        let creates = self.creates.iter().filter(|create| known.includes(&create.id));
        let is_gone = |create: &OpId| {
            let mut deletes = self.deletes.iter().filter(|delete| known.includes(&delete.id));
            deletes.any(|delete| delete.after.includes(create))
        };
        let alive = creates.map(|create| create.id.clone());
        alive.filter(|create| !is_gone(create)).collect()
    }

    /// Whether something of an operation is left, for who knows so much.
    pub(super) fn counts(&self, op: &Operation, known: &Vector) -> bool {
        let alive = self.alive(known);
        match &op.verb {
            Verb::Create(_) => alive.contains(&op.id),
            Verb::Delete => false,
            _ => !self.births(op).is_disjoint(&alive),
        }
    }
}
