//! The definition, tried on every order there is.

use cheops_linear::{Action, Operation, Outcome};

/// Whether some order of what was answered, with some of what may have happened, is right.
pub(crate) fn have_an_order(history: &[Operation]) -> bool {
    let certain = history
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Done | Outcome::Unmet));
    let certain: Vec<_> = certain.collect();
    let unknown = history.iter().filter(|one| one.outcome == Outcome::Unknown);
    let unknown: Vec<_> = unknown.collect();
    (0..1 << unknown.len()).any(|chosen: u32| {
        let mut some = certain.clone();
        let happened = unknown
            .iter()
            .enumerate()
            .filter(|(at, _)| chosen & (1 << at) != 0);
        some.extend(happened.map(|(_, one)| one));
        any_permutation(&mut some, 0)
    })
}

/// Whether some order of what is behind `fixed` makes the whole right.
fn any_permutation(order: &mut [&Operation], fixed: usize) -> bool {
    if fixed == order.len() {
        return is_right(order);
    }
    for next in fixed..order.len() {
        order.swap(fixed, next);
        if any_permutation(order, fixed + 1) {
            return true;
        }
        order.swap(fixed, next);
    }
    false
}

fn is_right(order: &[&Operation]) -> bool {
    let keeps_time = |at: usize| order[at + 1..].iter().all(|later| !later.precedes(order[at]));
    (0..order.len()).all(keeps_time) && answers_are_right(order)
}

fn answers_are_right(order: &[&Operation]) -> bool {
    let mut held = None;
    for operation in order {
        let (is_met, then) = match operation.action {
            Action::Read(found) => (operation.outcome != Outcome::Done || found == held, held),
            Action::Write(value) => (true, Some(value)),
            Action::CompareAndSet { expected, value } => (held == Some(expected), Some(value)),
            Action::Create(value) => (held.is_none(), Some(value)),
            Action::Delete => (held.is_some(), None),
        };
        match operation.outcome {
            Outcome::Done if !is_met => return false,
            Outcome::Done => held = then,
            // Of a read or a write it says nothing.
            Outcome::Unmet if matches!(operation.action, Action::Read(_) | Action::Write(_)) => {}
            Outcome::Unmet if is_met => return false,
            Outcome::Unknown if is_met => held = then,
            Outcome::Unmet | Outcome::Unknown | Outcome::Refused => {}
        }
    }
    true
}
