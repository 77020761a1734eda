//! After healing, the members of a set agree on who they are and on what has executed.

use cheops_replica::{MetaId, Standing};

use crate::{World, describe};

pub fn check(world: &mut World, main: usize, meta: &MetaId) {
    let reference = world.nodes[main].disk.sets[meta].clone();
    for site in reference.members().keys() {
        let node = world.node_of(site).expect("a simulated site");
        let Some(set) = world.nodes[node].disk.sets.get(meta) else {
            world
                .oracle
                .violation(format!("calm: {site} does not know {meta}"));
            continue;
        };
        let agrees = set.members().keys().eq(reference.members().keys())
            && set.standing() == Standing::Member
            && set.held() == reference.held()
            && set.done() == reference.done();
        if !agrees {
            let what = format!(
                "calm: members of {meta} differ:\n{}\n{}",
                describe(site, set),
                describe(&world.nodes[main].name, &reference)
            );
            world.oracle.violation(what);
        }
    }
}
