//! State travels only for a reason: else the operations alone make all replicas the same.

use cheops_replica::{Execution, Form, MetaId, Operation, Outcome, Set, State, Verb};

use super::conflicts::names;
use crate::World;

/// A step was committed: something in it may be a reason.
pub fn look_for_reasons(world: &mut World, meta: &MetaId, set: &Set) {
    let is_doubtful = set.job().is_some_and(|job| job.tries > 0);
    let is_late = |entry: &cheops_replica::Entry| entry.state == State::Done(Outcome::Lost);
    if set.degraded().is_some() || is_doubtful || set.log().any(is_late) || has_rival_actions(set) {
        world.oracle.reasons.insert(meta.clone());
    }
}

fn has_rival_actions(set: &Set) -> bool {
    let ops = || set.log().map(|entry| &entry.op);
    ops().any(|op| ops().any(|other| are_rivals(op, other)))
}

/// Whether two operations end differently in another order, and one of them must not be executed again.
pub(super) fn are_rivals(a: &Operation, b: &Operation) -> bool {
    let adds = |op: &Operation| matches!(op.verb, Verb::Action { commutes: true, .. });
    let is_action = |op: &Operation| matches!(op.verb, Verb::Action { .. });
    let both = a.verb.is_for_application() && b.verb.is_for_application();
    both && a.is_concurrent_with(b)
        && (is_action(a) || is_action(b))
        && !(adds(a) && adds(b))
        && !names(&a.touches).is_disjoint(&names(&b.touches))
}

/// A request leaves for an application.
pub fn check(world: &mut World, at: usize, meta: &MetaId, execution: &Execution) {
    if !matches!(execution.form, Form::Overwrite { .. } | Form::CreateFrom { .. }) {
        return;
    }
    world.oracle.copied.insert(meta.clone());
    let plan = &world.plan;
    let has_reason = plan.membership
        || plan.losses
        || plan.set_back
        || plan.has_small_log()
        || world.oracle.adopted.contains_key(meta)
        || world.oracle.meddled.contains(meta)
        || world.oracle.reasons.contains(meta);
    if !has_reason {
        let site = world.nodes[at].name.clone();
        let what = format!("transfer: {site} takes another replica's state of {meta}, for no reason");
        world.oracle.violation(what);
    }
}
