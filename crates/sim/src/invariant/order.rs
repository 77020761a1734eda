//! None is skipped: the replicas are what the operations make, one after the other, in the order of
//! the set. Computed here from the operations alone, by nothing of the engine.

use cheops_replica::{MetaId, Operation, Verb};

use crate::{Change, Resource, World};

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    if !world.plan.is_pure() || world.oracle.copied.contains(meta) {
        return;
    }
    let node = &world.nodes[main];
    let set = &node.disk.sets[meta];
    let Some(operations) = world.oracle.operations.get(meta) else {
        return;
    };
    let mut ordered: Vec<&Operation> = operations.values().collect();
    ordered.retain(|op| op.verb.is_for_application());
    ordered.sort_by_key(|op| (op.time, op.id.author.site.clone(), op.id.seq));
    let mut expected = Some(Resource::default());
    for op in &ordered {
        match (&op.verb, &mut expected) {
            (Verb::Delete, _) | (_, None) => expected = None,
            (_, Some(resource)) => Change::of(&op.request.body).apply(resource),
        }
    }
    if ordered.is_empty() {
        return;
    }
    let actual = set.local().and_then(|local| node.app.resources.get(local));
    // Parts differ from site to site, and have an invariant of their own.
    let actual = actual.cloned().map(|actual| Resource { part: 0, ..actual });
    if actual != expected {
        let what = format!("order: {meta} should be {expected:?} and is {actual:?} after {ordered:#?}");
        world.oracle.violation(what);
    }
}
