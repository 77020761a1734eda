//! A history as it was known at some moment.

use crate::{Action, Operation, Outcome};

/// Whether its answer says something, so that it must have a place.
pub(crate) fn is_certain(operation: &Operation) -> bool {
    match operation.outcome {
        Outcome::Done => true,
        Outcome::Unmet => !matches!(operation.action, Action::Read(_) | Action::Write(_)),
        Outcome::Refused | Outcome::Unknown => false,
    }
}

/// Whether it tells what there was and changes nothing.
pub(crate) fn only_tells(operation: &Operation) -> bool {
    operation.outcome == Outcome::Unmet || matches!(operation.action, Action::Read(_))
}

/// What was known at a moment: nothing of what was invoked later; what was not answered yet may have happened. If
/// there is an order for a history, there is one for its beginning.
pub(crate) fn until(operations: &[Operation], moment: u64) -> Vec<Operation> {
    let known = operations.iter().filter(|operation| operation.invoked <= moment);
    let as_known = |operation: &Operation| {
        let mut known = operation.clone();
        if operation.returned > moment {
            known.outcome = match operation.outcome {
                Outcome::Done | Outcome::Unknown => Outcome::Unknown,
                Outcome::Unmet | Outcome::Refused => Outcome::Refused,
            };
        }
        known
    };
    known.map(as_known).collect()
}
