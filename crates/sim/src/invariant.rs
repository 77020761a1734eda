//! What must hold, each in its own file. Some are watched all the time, the others at the end.

pub mod calm;
pub mod clock;
pub mod conflicts;
pub mod doubt;
pub mod durable;
pub mod equal;
pub mod involved;
mod life;
pub mod needs;
pub mod once;
pub mod order;
pub mod parts;
pub mod promises;
pub mod pruned;
pub mod transfer;

use cheops_replica::{Cause, MetaId, Operation, Outcome, State, Vector, Verb, Work};

use crate::{Watch, World};

/// What is watched all the time.
pub const WATCH: Watch = Watch {
    sends: involved::check,
    promises: promises::committed,
    commits: committed,
    asks: |world, at, meta, execution| {
        needs::check(world, at, meta);
        transfer::check(world, at, meta, execution);
    },
    attempts: doubt::attempt,
    executes: once::check,
};

/// After every commit; `before` is what the set had pruned before it.
pub fn committed(world: &mut World, at: usize, meta: &MetaId, before: Option<&Vector>) {
    let Some(set) = world.nodes[at].disk.sets.get(meta) else {
        return;
    };
    let known = world.oracle.operations.entry(meta.clone()).or_default();
    let mut fresh = Vec::new();
    let mut numbers = Vec::new();
    for entry in set.log() {
        let earlier = known.get(&entry.op.id);
        if earlier.is_some_and(|earlier| earlier.token != entry.op.token) {
            // Where nobody else has heard of the first one, nothing is mixed up.
            let author = &entry.op.id.author.site;
            let nodes = world.nodes.iter().enumerate();
            let others = nodes.filter(|(other, node)| *other != at && node.name != *author);
            let mut held = others.filter_map(|(_, node)| Some(node.set(meta)?.held()));
            if held.any(|held| held.includes(&entry.op.id)) {
                numbers.push(entry.op.id.clone());
            }
            let forgotten = known.remove(&entry.op.id);
            let renumbered = world.oracle.renumbered.entry(meta.clone());
            renumbered.or_default().extend(forgotten);
        }
        if !known.contains_key(&entry.op.id) {
            known.insert(entry.op.id.clone(), entry.op.clone());
            fresh.push(entry.op.clone());
        }
        if entry.state == State::Done(Outcome::Lost) {
            world
                .oracle
                .out_of_order
                .insert((meta.clone(), entry.op.id.clone()));
        }
        if let Verb::Forgo { lost } = &entry.op.verb {
            let lost = lost.iter().map(|op| (meta.clone(), op.id.clone()));
            world.oracle.out_of_order.extend(lost);
        }
    }
    for conflict in set.conflicts() {
        if !matches!(conflict.cause, Cause::Winner(_)) {
            let id = conflict.loser.id.clone();
            world.oracle.out_of_order.insert((meta.clone(), id));
        }
    }
    // Out of the world for a moment, so that nothing has to be copied.
    let Some(set) = world.nodes[at].disk.sets.remove(meta) else {
        return;
    };
    let accepting = world.oracle.accepting.entry(meta.clone()).or_default();
    if let Some(Work::Accept { op, .. }) = set.job().map(|job| &job.work) {
        accepting.insert(op.token, (**op).clone());
    }
    accepting.retain(|token, _| !fresh.iter().any(|op: &Operation| op.token == *token));
    durable::took_effect(world, at, meta, &set);
    transfer::look_for_reasons(world, meta, &set);
    world.nodes[at].disk.sets.insert(meta.clone(), set);
    for id in numbers {
        let what = format!("numbers: {id} of {meta} is two operations");
        world.oracle.violation(what);
    }
    for op in fresh {
        if let Verb::Dismiss { loser } = &op.verb {
            world.oracle.dismissed.insert((meta.clone(), loser.clone()));
        }
        clock::check(world, meta, &op);
    }
    pruned::check(world, at, meta, before);
}

/// After healing.
pub fn at_rest(world: &mut World) {
    for meta in world.sets() {
        let Some(main) = world.main_node(&meta) else {
            durable::no_member(world, &meta);
            continue;
        };
        calm::check(world, main, &meta);
        durable::check(world, main, &meta);
        equal::check(world, main, &meta);
        order::check(world, main, &meta);
        parts::check(world, main, &meta);
        conflicts::check(world, main, &meta);
    }
    equal::no_orphans(world);
    promises::check(world);
}
