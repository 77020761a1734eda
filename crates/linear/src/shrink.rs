//! Which operations of a history without an order are enough to have none.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Action, Operation, Outcome,
    history::{is_certain, only_tells},
    search::{Found, search},
    steps::Steps,
};

/// Searches for smaller histories. What is left is right after any number of them, only not as small.
const SEARCHES_MAX: usize = 1_000;
/// Steps of such a search: those that take longer explain nothing to anybody.
const STEPS_MAX: u64 = 20_000;

/// A small part of the operations for which there is no order either; `wrong` is in it.
///
/// Left out is only what cannot be the reason: an answer that tells something, by itself; a value with all that sets
/// or needs it. So an order of the whole would be one of the part.
pub(crate) fn shrink(operations: &[Operation], wrong: &Operation) -> Vec<Operation> {
    let matters = |operation: &&Operation| {
        is_certain(operation) || (operation.outcome == Outcome::Unknown && !only_tells(operation))
    };
    let mut left: Vec<Operation> = operations.iter().filter(matters).cloned().collect();
    let mut searches = SEARCHES_MAX;
    // Values come before answers, since they take their reads with them, but not before what stands in their way.
    for units in [unmet, values, answers] {
        let units = units(&left, wrong);
        let gone = leave_out(&left, units, &mut searches);
        let mut number = 0..;
        left.retain(|_| number.next().is_some_and(|number| !gone.contains(&number)));
    }
    left
}

/// Operations, by number, that can only be left out together.
type Unit = BTreeSet<usize>;

/// All conditions that were not met.
fn unmet(operations: &[Operation], wrong: &Operation) -> Vec<Unit> {
    let of = operations.iter().enumerate();
    let unmet = of.filter(|(_, operation)| operation.outcome == Outcome::Unmet && *operation != wrong);
    vec![unmet.map(|(number, _)| number).collect()]
}

/// Answers that tell something.
fn answers(operations: &[Operation], wrong: &Operation) -> Vec<Unit> {
    let of = operations.iter().enumerate();
    of.filter(|(_, operation)| only_tells(operation) && *operation != wrong)
        .map(|(number, _)| Unit::from([number]))
        .collect()
}

/// Values with all that sets or needs them, and all values that depend on them; none while something needs just *not*
/// a value, whatever else there is.
fn values(operations: &[Operation], wrong: &Operation) -> Vec<Unit> {
    let is_vague = |operation: &Operation| match operation.action {
        Action::Delete => true,
        Action::Create(_) | Action::CompareAndSet { .. } => operation.outcome == Outcome::Unmet,
        Action::Read(_) | Action::Write(_) => false,
    };
    if operations.iter().any(is_vague) {
        return Vec::new();
    }
    let mut by_value: BTreeMap<u64, Unit> = BTreeMap::new();
    for (number, operation) in operations.iter().enumerate() {
        let (needed, set) = values_of(operation.action);
        for value in needed.into_iter().chain(set) {
            by_value.entry(value).or_default().insert(number);
        }
    }
    let sets_another = |number: &usize, value| {
        values_of(operations[*number].action)
            .1
            .filter(|set| *set != value)
    };
    let unit = |first: u64| {
        let mut unit = Unit::new();
        let (mut seen, mut open) = (BTreeSet::from([first]), vec![first]);
        while let Some(value) = open.pop() {
            let own = &by_value[&value];
            unit.extend(own);
            // What needs this value and sets another takes that with it.
            let others = own.iter().filter_map(|number| sets_another(number, value));
            open.extend(others.filter(|other| seen.insert(*other)));
        }
        unit
    };
    let units = by_value.keys().map(|value| unit(*value));
    units
        .filter(|unit| unit.iter().all(|number| operations[*number] != *wrong))
        .collect()
}

/// What it needs and what it sets.
fn values_of(action: Action) -> (Option<u64>, Option<u64>) {
    match action {
        Action::Read(found) => (found, None),
        Action::Write(value) | Action::Create(value) => (None, Some(value)),
        Action::CompareAndSet { expected, value } => (Some(expected), Some(value)),
        Action::Delete => (None, None),
    }
}

/// The operations that can be left out: many units at a time at first, then fewer.
fn leave_out(operations: &[Operation], mut units: Vec<Unit>, searches: &mut usize) -> Unit {
    let mut gone = Unit::new();
    let mut size = units.len();
    while size > 0 {
        let mut kept: Vec<Unit> = Vec::new();
        for some in units.chunks(size) {
            let with: Unit = some.iter().flatten().chain(&gone).copied().collect();
            if *searches > 0 && has_no_order(operations, &with) {
                gone = with;
            } else {
                kept.extend_from_slice(some);
            }
            *searches = searches.saturating_sub(1);
        }
        units = kept;
        size = if size == 1 {
            0
        } else {
            size.min(units.len()).div_ceil(2)
        };
    }
    gone
}

fn has_no_order(operations: &[Operation], gone: &Unit) -> bool {
    let left = operations.iter().enumerate();
    let left: Vec<_> = left
        .filter(|(number, _)| !gone.contains(number))
        .map(|(_, operation)| operation.clone())
        .collect();
    search(&Steps::of(&left), STEPS_MAX).0 == Found::None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a register that works: operations that have their effects one after the other, overlap others, and are sometimes
    /// not answered or not met.
    fn good(seed: u64) -> Vec<Operation> {
        let mut random = seed;
        let mut throw = |sides: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % sides
        };
        let mut held = None;
        let mut history = Vec::new();
        for number in 0..8 {
            let moment = 100 + 10 * number;
            let value = throw(5);
            let (action, is_met) = match throw(8) {
                0..=2 => (Action::Read(held), true),
                3 | 4 => (Action::Write(value), true),
                5 => (Action::Create(value), held.is_none()),
                6 if seed.is_multiple_of(3) => (Action::Delete, held.is_some()),
                _ => {
                    let expected = throw(5);
                    (Action::CompareAndSet { expected, value }, held == Some(expected))
                }
            };
            let outcome = match throw(6) {
                0 => Outcome::Unknown,
                _ if is_met => Outcome::Done,
                _ => Outcome::Unmet,
            };
            if is_met && !matches!(action, Action::Read(_)) {
                held = values_of(action).1;
            }
            history.push(Operation {
                process: number as u32,
                key: "k".to_owned(),
                action,
                outcome,
                invoked: moment - throw(30),
                returned: moment + throw(30),
            });
        }
        history
    }

    #[test]
    fn what_is_left_out_of_a_history_with_an_order_leaves_one() {
        let nobody = Operation {
            process: u32::MAX,
            ..good(0)[0].clone()
        };
        let mut tried = 0;
        for seed in 0..20_000 {
            let history = good(seed);
            assert!(!has_no_order(&history, &Unit::new()), "seed {seed}: {history:#?}");
            for units in [unmet, values, answers] {
                for unit in units(&history, &nobody) {
                    tried += usize::from(!unit.is_empty());
                    assert!(
                        !has_no_order(&history, &unit),
                        "seed {seed}: {unit:?} of {history:#?}"
                    );
                }
            }
        }
        assert!(tried > 50_000, "only {tried} tried");
    }
}
