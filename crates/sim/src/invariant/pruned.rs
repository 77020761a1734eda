//! Nothing is pruned that a site still needs: to execute it, or to put a concurrent one in order.

use cheops_replica::{MetaId, Standing, Vector, Work};

use crate::World;

pub fn check(world: &mut World, at: usize, meta: &MetaId, before: Option<&Vector>) {
    if world.plan.has_small_log() || world.oracle.forced.contains(meta) || !world.oracle.lost.is_empty() {
        return;
    }
    let here = &world.nodes[at].disk.sets[meta];
    // A site that begins from a snapshot begins without what was pruned before.
    let Some(before) = before.filter(|before| *before != here.pruned() && !here.is_installing()) else {
        return;
    };
    let Some(known) = world.oracle.operations.get(meta) else {
        return;
    };
    let mut found = Vec::new();
    let gone = known
        .values()
        .filter(|op| here.pruned().includes(&op.id) && !before.includes(&op.id));
    for op in gone {
        for node in &world.nodes {
            let Some(set) = node.disk.sets.get(meta) else {
                continue;
            };
            let is_member = here.members().contains_key(&node.name) && set.standing() == Standing::Member;
            if is_member && !set.is_installing() && !set.done().includes(&op.id) {
                found.push(format!("pruned: {} of {meta}, which {} needs", op.id, node.name));
            }
            if let Some(Work::Accept { op: other, .. }) = set.job().map(|job| &job.work)
                && is_member
                && other.is_concurrent_with(op)
            {
                found.push(format!(
                    "pruned: {} of {meta} while {} is accepted",
                    op.id, other.id
                ));
            }
        }
        for other in known.values() {
            if other.is_concurrent_with(op) && !here.done().includes(&other.id) {
                found.push(format!("pruned: {} of {meta} before {} came", op.id, other.id));
            }
        }
    }
    for what in found {
        world.oracle.violation(what);
    }
}
