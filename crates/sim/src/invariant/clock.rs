//! An operation comes after everything that its origin had executed, also in time.

use cheops_replica::{MetaId, Operation};

use crate::World;

/// An operation is in a log for the first time.
pub fn check(world: &mut World, meta: &MetaId, op: &Operation) {
    let known = world.oracle.operations.get(meta);
    let later = known
        .into_iter()
        .flat_map(|known| known.values())
        .find(|other| op.after.includes(&other.id) && other.rank() > op.rank());
    if let Some(other) = later {
        let what = format!(
            "clock: {} of {meta} follows {} and has an earlier time",
            op.id, other.id
        );
        world.oracle.violation(what);
    }
}
