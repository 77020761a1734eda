//! Histories of a register that works, as clients would see it: linearizable by the way they are made.

use cheops_linear::{Action, Operation, Outcome};

use crate::dice::Dice;

/// How such a history looks.
pub(crate) struct Shape {
    pub(crate) operations: usize,
    pub(crate) clients: u32,
    /// Different values; 0 for a new one for each write.
    pub(crate) values: u64,
    /// Of a hundred operations, those without an answer.
    pub(crate) unknown: u64,
    /// Also creates and deletes.
    pub(crate) all_actions: bool,
    /// Of a thousand operations, those that take a hundred times as long.
    pub(crate) slow: u64,
}

pub(crate) fn history(seed: u64, shape: &Shape) -> Vec<Operation> {
    let mut dice = Dice::of(seed);
    let mut free_at = vec![0; shape.clients as usize];
    let mut planned = Vec::new();
    for number in 1..=shape.operations as u64 {
        let client = (0..free_at.len()).min_by_key(|client| free_at[*client]).unwrap();
        let long = if dice.throw(1_000) < shape.slow { 100 } else { 1 };
        let invoked = free_at[client] + dice.throw(20);
        let mut moment = invoked + dice.throw(50 * long);
        let returned = moment + dice.throw(50 * long);
        free_at[client] = returned + 1;
        let value = if shape.values == 0 {
            number
        } else {
            dice.throw(shape.values)
        };
        let action = action(&mut dice, value, shape.all_actions);
        let mut outcome = Outcome::Done;
        if dice.throw(100) < shape.unknown {
            outcome = Outcome::Unknown;
            // At any time after it, or never.
            moment = invoked + dice.throw(5_000);
        } else if dice.throw(50) == 0 {
            outcome = Outcome::Refused;
        }
        let happens = outcome == Outcome::Done || (outcome == Outcome::Unknown && dice.throw(2) == 0);
        let operation = Operation {
            process: client as u32,
            key: "k".to_owned(),
            action,
            outcome,
            invoked,
            returned,
        };
        planned.push((moment, happens, operation));
    }
    planned.sort_by_key(|(moment, ..)| *moment);
    let mut held = None;
    let play = |(_, happens, mut operation): (u64, bool, Operation)| {
        if happens {
            play(&mut held, &mut dice, &mut operation);
        }
        operation
    };
    planned.into_iter().map(play).collect()
}

fn action(dice: &mut Dice, value: u64, all: bool) -> Action {
    match dice.throw(if all { 10 } else { 8 }) {
        0..=3 => Action::Read(None),
        4..=6 => Action::Write(value),
        // What is expected is chosen when it is played.
        7 => Action::CompareAndSet { expected: 0, value },
        8 => Action::Create(value),
        _ => Action::Delete,
    }
}

fn play(held: &mut Option<u64>, dice: &mut Dice, operation: &mut Operation) {
    let (is_met, then) = match &mut operation.action {
        Action::Read(found) => {
            *found = *held;
            (true, *held)
        }
        Action::Write(value) => (true, Some(*value)),
        Action::CompareAndSet { expected, value } => {
            // Mostly what there is.
            *expected = held.filter(|_| dice.throw(4) > 0).unwrap_or(u64::MAX);
            (*held == Some(*expected), Some(*value))
        }
        Action::Create(value) => (held.is_none(), Some(*value)),
        Action::Delete => (held.is_some(), None),
    };
    if is_met {
        *held = then;
    } else if operation.outcome == Outcome::Done {
        operation.outcome = Outcome::Unmet;
    }
}
