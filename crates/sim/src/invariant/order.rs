//! None is skipped: the replicas are what the operations make, one after the other, in the order of
//! the set. Computed here from the operations alone, by nothing of the engine. A part of the resource may be
//! something else only where an operation that touches it could not be put in order, which is a conflict.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Cause, MetaId, OpId, Operation, Set, Vector, Verb};

use super::{conflicts::names, life::Life, transfer::are_rivals};
use crate::{Change, Node, Resource, World};

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let set = &world.nodes[main].disk.sets[meta];
    let Some(operations) = world.oracle.operations.get(meta) else {
        return;
    };
    // A site that is alone and is set back uses its numbers again, and nobody is the wiser.
    if !world.oracle.set_back.is_empty() && world.oracle.adopted.contains_key(meta) {
        return;
    }
    // What only a site had that was removed, or lost its disk, is no part of the set.
    let mut ordered: Vec<&Operation> = operations.values().collect();
    ordered.retain(|op| op.verb.is_for_application() && set.held().includes(&op.id));
    // A store that was set back may give one time to two writes. The contract does not say which of them is first, only that it is
    // the same one everywhere. The numbers of two lives cannot be compared: the lives are.
    ordered.sort_by_key(|op| (op.time, op.id.author.clone(), op.id.seq));
    if ordered.is_empty() {
        return;
    }
    // Somebody has made it something else, which may be what all have now.
    if world.oracle.meddled.contains(meta) {
        return;
    }
    let mut forgone = forgone_deletes(set, operations);
    forgone.retain(|id| {
        let mut kept = set.conflicts().map(|conflict| &conflict.loser.id);
        kept.any(|kept| kept == id) || world.oracle.dismissed.contains(&(meta.clone(), id.clone()))
    });
    let expected = expected(world, meta, &ordered, set.held(), &forgone);
    let excused = excused(world, meta, &ordered);
    let may_be_gone = ghosts(world, meta).any(|op| matches!(op.verb, Verb::Delete));
    // One that a site alone has accepted, and told nobody of.
    let may_be_there = ghosts(world, meta).any(|op| matches!(op.verb, Verb::Create(_)));
    let mut wrong = Vec::new();
    for site in set.members().keys() {
        let node = &world.nodes[world.node_of(site).expect("a simulated site")];
        let Some(set) = node.set(meta).filter(|set| set.degraded().is_none()) else {
            continue;
        };
        let actual = actual(node, set);
        let is_explained = may_be_gone && actual.is_none() || may_be_there && expected.is_none();
        if !is_explained && !is_like(actual.as_ref(), expected.as_ref(), &excused) {
            wrong.push(format!(
                "order: {meta} at {site} should be {expected:?} and is {actual:?} after {ordered:#?}"
            ));
        }
    }
    for what in wrong {
        world.oracle.violation(what);
    }
}

fn actual(node: &Node, set: &Set) -> Option<Resource> {
    let resource = set.local().and_then(|local| node.app.resources.get(local));
    // Parts differ from site to site, and have an invariant of their own.
    resource.cloned().map(|actual| Resource { part: 0, ..actual })
}

/// Deletes that the set has decided to go on without. Kept as conflicts, they take nothing away. A site that is alone drops its
/// decision in the step that makes it: then the conflict tells of it.
fn forgone_deletes(set: &Set, operations: &BTreeMap<OpId, Operation>) -> BTreeSet<OpId> {
    let decided = operations.values().filter(|op| set.held().includes(&op.id));
    let lost = decided.filter_map(|op| match &op.verb {
        Verb::Forgo { lost } => Some(lost),
        _ => None,
    });
    let told = set
        .conflicts()
        .filter(|conflict| conflict.cause == Cause::Forgone);
    let lost = lost.flatten().chain(told.map(|conflict| &conflict.loser));
    let deletes = lost.filter(|op| matches!(op.verb, Verb::Delete));
    deletes.map(|op| op.id.clone()).collect()
}

fn expected(
    world: &World,
    meta: &MetaId,
    ordered: &[&Operation],
    held: &Vector,
    forgone: &BTreeSet<OpId>,
) -> Option<Resource> {
    let ordered = ordered.iter().filter(|op| !forgone.contains(&op.id));
    if world.plan.twists.named {
        let life = Life::without(world.oracle.operations.get(meta)?, forgone);
        let mut counting = ordered.filter(|op| life.counts(op, held));
        let mut resource = Resource::default();
        Change::of(&counting.next()?.request.body).apply(&mut resource);
        counting.for_each(|op| Change::of(&op.request.body).apply(&mut resource));
        return Some(resource);
    }
    let begins = world.oracle.adopted.get(meta).cloned();
    let mut expected = Some(begins.unwrap_or_default());
    for op in ordered {
        match (&op.verb, &mut expected) {
            (Verb::Delete, _) | (_, None) => expected = None,
            (Verb::Create(_), Some(_)) if world.oracle.adopted.contains_key(meta) => {}
            (_, Some(resource)) => Change::of(&op.request.body).apply(resource),
        }
    }
    expected
}

/// The parts of the resource that are touched by an operation that could not be put in order, or by concurrent
/// ones of which one must not be repeated.
fn excused(world: &World, meta: &MetaId, ordered: &[&Operation]) -> BTreeSet<String> {
    let is_lost = |op: &Operation| {
        let id = (meta.clone(), op.id.clone());
        world.oracle.out_of_order.contains(&id)
    };
    let has_rival = |op: &Operation| {
        let mut others = ordered.iter();
        others.any(|other| are_rivals(op, other))
    };
    let out_of_order = ordered.iter().copied().filter(|op| is_lost(op) || has_rival(op));
    // An application still has what only a lost disk knew of, until another state takes its place.
    let operations = world.oracle.operations.get(meta).into_iter().flatten();
    let forgotten = operations.map(|(_, op)| op).filter(|op| {
        let is_held = ordered.iter().any(|held| held.id == op.id);
        // What the set went on without is kept as a conflict, and may be in the only replica that there was.
        let is_kept = world.nodes.iter().filter_map(|node| node.set(meta)).any(|set| {
            let mut kept = set.conflicts();
            kept.any(|conflict| conflict.loser.id == op.id && conflict.cause == Cause::Expelled)
        });
        let is_given_up = is_kept || world.oracle.yielded.contains(meta);
        !is_held && (is_given_up || world.oracle.lost.contains(&op.id.author.site))
    });
    // The same of what a store has forgotten, where another operation has its number since.
    let renumbered = world.oracle.renumbered.get(meta).into_iter().flatten();
    let forgotten = forgotten.chain(renumbered);
    let touching = out_of_order.chain(ghosts(world, meta)).chain(forgotten);
    let mut excused: BTreeSet<_> = touching.flat_map(|op| names(&op.touches)).collect();
    // What is left after a delete is made again, but for actions, which run once.
    let is = |of: fn(&Verb) -> bool| ordered.iter().any(|op| of(&op.verb));
    if world.plan.twists.named
        && is(|verb| matches!(verb, Verb::Delete))
        && is(|verb| matches!(verb, Verb::Action { .. }))
    {
        excused.insert("/count".to_owned());
    }
    if !world.oracle.set_back.is_empty() {
        // A store that was set back executes again what it has forgotten, until it learns of it: actions too.
        excused.insert("/count".to_owned());
    }
    excused
}

/// Writes whose callers were told that nobody knows, or nothing, that took effect, and that are no operations.
fn ghosts<'w>(world: &'w World, meta: &'w MetaId) -> impl Iterator<Item = &'w Operation> {
    let accepting = world.oracle.accepting.get(meta).into_iter().flatten();
    accepting.map(|(_, op)| op).filter(|op| {
        let has_seen = |node: &Node| node.app.seen.contains(&op.token);
        let is_told =
            world.oracle.accepted.contains_key(&op.token) || world.oracle.refused.contains(&op.token);
        !is_told && world.nodes.iter().any(has_seen)
    })
}

fn is_like(actual: Option<&Resource>, expected: Option<&Resource>, excused: &BTreeSet<String>) -> bool {
    let (Some(actual), Some(expected)) = (actual, expected) else {
        return actual.is_none() == expected.is_none();
    };
    let is_count_like = actual.count == expected.count || excused.contains("/count");
    let mut names = expected.fields.keys().chain(actual.fields.keys());
    is_count_like
        && names.all(|name| {
            actual.fields.get(name) == expected.fields.get(name)
                || excused.contains(&format!("/fields/{name}"))
        })
}
