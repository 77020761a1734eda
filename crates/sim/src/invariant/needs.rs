//! Nothing executes before the resources that it refers to, nor a delete before those that refer to it.

use cheops_replica::{MetaId, Operation, Phase, Work};

use crate::{World, rules::must_wait};

/// A request leaves for an application for the first time.
pub fn check(world: &mut World, at: usize, meta: &MetaId) {
    let node = &world.nodes[at];
    // A replica that is lost, removed or given up later was there when its need was looked at.
    if world.plan.membership || !world.oracle.lost.is_empty() {
        return;
    }
    let Some(set) = node.set(meta) else {
        return;
    };
    let job = set
        .job()
        .filter(|job| job.tries == 0 && job.phase == Phase::Running);
    let op: Option<&Operation> = job.and_then(|job| match &job.work {
        Work::Accept {
            op, answered: false, ..
        } => Some(&**op),
        Work::Replay { id } => set.log().find(|entry| entry.op.id == *id).map(|entry| &entry.op),
        _ => None,
    });
    let unmet = op.and_then(|op| {
        let need = op.needs.iter().find(|need| must_wait(need, &node.disk.sets))?;
        Some(format!(
            "needs: {} of {meta} at {} does not wait for {need:?}",
            op.id, node.name
        ))
    });
    if let Some(what) = unmet {
        world.oracle.violation(what);
    }
}
