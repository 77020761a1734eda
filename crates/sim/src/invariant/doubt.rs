//! An execution in doubt is never repeated, whether or not it happened.

use cheops_replica::Execution;

use crate::World;

/// A request that must not be repeated is about to be made.
pub fn attempt(world: &mut World, at: usize, execution: &Execution) {
    let site = world.nodes[at].name.clone();
    if world.oracle.open.contains(&(at, execution.token)) && !world.oracle.lost.contains(&site) {
        let what = format!(
            "doubt: {:?} is repeated at {site} while in doubt",
            execution.token
        );
        world.oracle.violation(what);
    }
}
