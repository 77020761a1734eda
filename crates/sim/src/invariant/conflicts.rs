//! Every concurrent loser is in the conflict queue of every member, and nothing else is. Who lost is
//! decided here from fields and times, by nothing of the engine.

use std::collections::BTreeSet;

use cheops_replica::{Footprint, MetaId, OpId, Operation, Verb};

use super::life::Life;
use crate::World;

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let excused = world.plan.has_small_log()
        || world.plan.membership
        || world.oracle.adopted.contains_key(meta)
        || world.oracle.forced.contains(meta)
        || !world.oracle.lost.is_empty();
    if excused {
        return;
    }
    let Some(operations) = world.oracle.operations.get(meta) else {
        return;
    };
    let life = Life::of(operations);
    let mut expected: BTreeSet<OpId> = BTreeSet::new();
    for a in operations.values() {
        for b in operations.values() {
            let concurrent = a.id != b.id && !a.after.includes(&b.id) && !b.after.includes(&a.id);
            let both = a.verb.is_for_application() && b.verb.is_for_application();
            if concurrent && both && loses(&life, a, b) {
                expected.insert(a.id.clone());
            }
        }
    }
    // What no good replica had.
    for op in operations.values() {
        if let Verb::Forgo { lost } = &op.verb {
            expected.extend(lost.iter().map(|op| op.id.clone()));
        }
    }
    expected.retain(|id| !world.oracle.dismissed.contains(&(meta.clone(), id.clone())));
    let members: Vec<_> = world.nodes[main].disk.sets[meta]
        .members()
        .keys()
        .cloned()
        .collect();
    for site in members {
        let node = &world.nodes[world.node_of(&site).expect("a simulated site")];
        let Some(set) = node.disk.sets.get(meta) else {
            continue;
        };
        let actual: BTreeSet<OpId> = set
            .conflicts()
            .map(|conflict| conflict.loser.id.clone())
            .collect();
        if actual != expected {
            let what = format!("conflicts: of {meta} at {site} are {actual:?}, should be {expected:?}");
            world.oracle.violation(what);
            return;
        }
    }
}

/// Whether `a` loses against the concurrent `b`.
fn loses(life: &Life<'_>, a: &Operation, b: &Operation) -> bool {
    let adds = |op: &Operation| matches!(op.verb, Verb::Action { commutes: true, .. });
    match (&a.verb, &b.verb) {
        // A create that the delete's origin had not seen is somebody else's.
        (Verb::Delete, _) | (Verb::Create(_), Verb::Delete) => false,
        (_, Verb::Delete) => life.takes_any(b, &life.births(a)),
        // Who wrote after the end of the other one takes nothing from it.
        _ if is_over(life, a, b) || is_over(life, b, a) => false,
        _ if adds(a) && adds(b) => false,
        _ => {
            let a_first = (a.time, &a.id.author.site) < (b.time, &b.id.author.site);
            a_first && !names(&a.touches).is_disjoint(&names(&b.touches))
        }
    }
}

/// Whether nothing is left of an operation where another one was written.
fn is_over(life: &Life<'_>, op: &Operation, at: &Operation) -> bool {
    let is_update = !matches!(op.verb, Verb::Create(_));
    is_update && life.are_over(&life.births(op), &at.after)
}

pub(super) fn names(footprint: &Footprint) -> BTreeSet<String> {
    let all = ["/fields/a", "/fields/b", "/fields/c", "/count"];
    match footprint {
        Footprint::Whole => all.iter().map(|name| (*name).to_owned()).collect(),
        Footprint::Parts(parts) => parts.clone(),
    }
}
