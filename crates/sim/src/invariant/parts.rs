//! After healing, all sites agree how a count is divided, each has its part, and the parts of all that the count was divided
//! among add up to the whole.

use cheops_replica::MetaId;

use crate::World;

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let reference = &world.nodes[main].disk.sets[meta];
    let Some(share) = reference.shares().first().cloned() else {
        return;
    };
    if reference.is_deleted() {
        return;
    }
    let members = reference.members().clone();
    let mut wrong = Vec::new();
    let mut sum = 0;
    for site in members.keys() {
        let node = &world.nodes[world.node_of(site).expect("a simulated site")];
        let Some(set) = node.disk.sets.get(meta) else {
            return;
        };
        // What cannot follow is shown as such, and brought back by an operator.
        let Some(resource) = set.local().and_then(|local| node.app.resources.get(local)) else {
            return;
        };
        if set.degraded().is_some() {
            return;
        }
        sum += resource.part;
        if set.shares().first() != Some(&share) {
            wrong.push(format!(
                "parts: {site} knows another division of {meta}: {:?}",
                set.shares()
            ));
        } else if resource.part != share.part_of(site) {
            let (found, part) = (resource.part, share.part_of(site));
            wrong.push(format!("parts: {site} has {found} of {meta} instead of {part}"));
        }
    }
    let all_are_there = share.parts.iter().all(|(site, _)| members.contains_key(site));
    if all_are_there && sum != share.total() {
        wrong.push(format!(
            "parts: those of {meta} are {sum} and the whole is {}",
            share.total()
        ));
    }
    for what in wrong {
        world.oracle.violation(what);
    }
}
