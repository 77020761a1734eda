//! After healing, all replicas of a set are equal, and applications hold nothing else.

use std::collections::BTreeSet;

use cheops_replica::MetaId;

use crate::{Resource, World};

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let reference = &world.nodes[main].disk.sets[meta];
    let (deleted, members) = (reference.is_deleted(), reference.members().clone());
    let has_replica = |site| {
        let node = world.node_of(site).map(|at| &world.nodes[at]);
        node.and_then(|node| node.set(meta))
            .is_some_and(|set| set.local().is_some())
    };
    // The only replica was on a side that was given up, or its delete was forgotten with a store.
    let can_be_gone =
        world.oracle.forced.contains(meta) || members.keys().any(|site| world.oracle.lost.contains(site));
    let reference_is_empty = can_be_gone && !members.keys().any(has_replica);
    let mut states = Vec::new();
    for site in members.keys() {
        let node = &world.nodes[world.node_of(site).expect("a simulated site")];
        let Some(set) = node.disk.sets.get(meta) else {
            continue;
        };
        let resource = set.local().and_then(|local| node.app.resources.get(local));
        if reference_is_empty && resource.is_none() {
            continue;
        }
        if set.is_deleted() != deleted || resource.is_none() != deleted {
            let what = format!(
                "equal: {meta} is deleted: {deleted}, at {site}: {resource:?} {:?}",
                set.degraded()
            );
            world.oracle.violation(what);
            return;
        }
        let whole = resource.cloned().map(|resource| Resource { part: 0, ..resource });
        states.push((site.clone(), whole));
    }
    if states.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        world
            .oracle
            .violation(format!("equal: replicas of {meta} differ: {states:#?}"));
    }
}

/// Every resource of an application is the replica of some set.
pub fn no_orphans(world: &mut World) {
    let mut orphans = Vec::new();
    for node in &world.nodes {
        let known: BTreeSet<_> = node.disk.sets.values().filter_map(|set| set.local()).collect();
        let strange = node.app.resources.keys().filter(|local| !known.contains(local));
        if !world.oracle.lost.contains(&node.name) {
            orphans.extend(strange.map(|local| format!("equal: {local} at {} is nobody's", node.name)));
        }
    }
    for orphan in orphans {
        world.oracle.violation(orphan);
    }
}
