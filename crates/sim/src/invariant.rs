//! What must hold, each in its own file. Some are watched all the time, the others at the end.

pub mod calm;
pub mod clock;
pub mod conflicts;
pub mod doubt;
pub mod durable;
pub mod equal;
pub mod involved;
pub mod needs;
pub mod once;
pub mod order;
pub mod parts;
pub mod pruned;

use cheops_replica::{MetaId, Outcome, State, Vector, Verb};

use crate::World;

/// After every commit; `before` is what the set had pruned before it.
pub fn committed(world: &mut World, at: usize, meta: &MetaId, before: Option<&Vector>) {
    let Some(set) = world.nodes[at].disk.sets.get(meta) else {
        return;
    };
    let known = world.oracle.operations.entry(meta.clone()).or_default();
    let mut fresh = Vec::new();
    for entry in set.log() {
        if !known.contains_key(&entry.op.id) {
            known.insert(entry.op.id.clone(), entry.op.clone());
            fresh.push(entry.op.clone());
        }
        if entry.state == State::Done(Outcome::Lost) {
            world.oracle.copied.insert(meta.clone());
        }
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
}
