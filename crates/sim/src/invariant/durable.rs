//! No acknowledged operation is lost while a holder's disk survives.

use cheops_replica::{MetaId, Outcome, Set, Standing, State, Verb};

use crate::World;

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let set = &world.nodes[main].disk.sets[meta];
    let missing: Vec<_> = world
        .oracle
        .accepted
        .values()
        .filter(|(of, id)| of == meta && !set.held().includes(id))
        .map(|(_, id)| id.clone())
        .collect();
    for id in missing {
        // What only a removed site had is kept as a conflict; what only a lost disk had is gone.
        let is_conflict = world.nodes.iter().any(|node| {
            node.disk
                .sets
                .get(meta)
                .is_some_and(|set| set.conflicts().any(|conflict| conflict.loser.id == id))
        });
        let is_record = world
            .oracle
            .operations
            .get(meta)
            .and_then(|operations| operations.get(&id))
            .is_some_and(|op| !op.verb.is_for_application());
        let is_dismissed = world.oracle.dismissed.contains(&(meta.clone(), id.clone()));
        // A site that left in good order left it with the others; their disks may be the lost ones.
        let author = world.node_of(&id.author.site).map(|at| &world.nodes[at]);
        let has_left = author
            .and_then(|node| node.set(meta))
            .is_some_and(|set| set.standing() == Standing::Left);
        let excused = world.oracle.yielded.contains(meta)
            // The side that went on lost its disk, and knows nothing of it.
            || (world.oracle.forced.contains(meta) && !world.oracle.lost.is_empty())
            || world.oracle.lost.contains(&id.author.site)
            || (has_left && !world.oracle.lost.is_empty())
            || (world.oracle.forced.contains(meta) && (is_conflict || is_dismissed || is_record));
        if !excused {
            world
                .oracle
                .violation(format!("durable: {id} of {meta} was acknowledged and is lost"));
        }
    }
}

/// What a site counts as executed has been seen by its application.
pub fn took_effect(world: &mut World, at: usize, meta: &MetaId, set: &Set) {
    let app = &world.nodes[at].app;
    let unseen = set.log().find(|entry| {
        let is_executed = entry.state == State::Done(Outcome::Executed) && !entry.redo;
        // A delete of what is not there executes without the application.
        let is_for_application = entry.op.verb.is_for_application() && !matches!(entry.op.verb, Verb::Delete);
        is_executed && is_for_application && !app.seen.contains(&entry.op.token)
    });
    if let Some(entry) = unseen {
        let what = format!(
            "durable: {} of {meta} counts as executed at {} and was not",
            entry.op.id, world.nodes[at].name
        );
        world.oracle.violation(what);
    }
}

/// No site counts itself to the set any more.
pub fn no_member(world: &mut World, meta: &MetaId) {
    let was_created = world.oracle.accepted.values().any(|(of, _)| of == meta);
    let is_deleted = world
        .nodes
        .iter()
        .any(|node| node.set(meta).is_some_and(cheops_replica::Set::is_deleted));
    if was_created && !is_deleted && world.oracle.lost.is_empty() {
        let what = format!("durable: {meta} was acknowledged and has no member left");
        world.oracle.violation(what);
    }
}
