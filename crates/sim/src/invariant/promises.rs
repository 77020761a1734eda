//! What was promised has its end: it is an operation, or was refused.

use cheops_replica::{Effect, MetaId, Set, Token};

use crate::World;

/// A step was committed: what it promised is durable from now on, and so is what it says of a promise.
pub fn committed(world: &mut World, at: usize, meta: &MetaId, effects: &[Effect]) {
    let is_promise = |token: &Token| world.oracle.promises.contains_key(token);
    let ended: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Answer { token, answer } if is_promise(token) => Some((*token, answer.clone())),
            _ => None,
        })
        .collect();
    for (token, answer) in ended {
        world.oracle.hear(meta, token, &answer);
    }
    let queued: Vec<_> = world.nodes[at]
        .set(meta)
        .into_iter()
        .flat_map(Set::queue)
        .filter(|draft| draft.promised)
        .map(|draft| draft.token)
        .collect();
    for token in queued {
        world.oracle.promises.insert(token, (at, meta.clone()));
    }
}

/// After healing.
pub fn check(world: &mut World) {
    let mut broken = Vec::new();
    for (token, (at, meta)) in &world.oracle.promises {
        let oracle = &world.oracle;
        let site = &world.nodes[*at].name;
        let mut operations = oracle.operations.get(meta).into_iter().flatten();
        let has_ended = oracle.accepted.contains_key(token)
            || oracle.refused.contains(token)
            || oracle.unknown.contains(token)
            || operations.any(|(_, op)| op.token == *token);
        if !has_ended && !oracle.lost.contains(site) && !oracle.forced.contains(meta) {
            broken.push(format!(
                "promises: {token:?} of {meta} was promised at {site} and has no end"
            ));
        }
    }
    for what in broken {
        world.oracle.violation(what);
    }
}
