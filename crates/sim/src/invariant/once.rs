//! No operation takes effect twice at a site, idempotent ones aside.

use cheops_replica::Token;

use crate::World;

pub fn check(world: &mut World, at: usize, token: Token) {
    let node = &world.nodes[at];
    let times = node.app.effects.get(&token).copied().unwrap_or(0);
    // A site that lost its store has lost what it knew about its executions. One that was removed and is
    // back has taken others' state, without what it executed in between.
    // What somebody deleted behind the agents is made again.
    let excused = world.oracle.lost.contains(&node.name)
        || !world.oracle.forced.is_empty()
        || !world.oracle.meddled.is_empty();
    if times > 1 && !excused {
        let what = format!("once: {token:?} took effect {times} times at {}", node.name);
        world.oracle.violation(what);
    }
}
