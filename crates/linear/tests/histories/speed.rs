//! How long it takes. This crate is optimised in every profile.

use std::time::{Duration, Instant};

use cheops_linear::{Action, Operation, Outcome, STEPS_MAX, check};

use crate::register::{self, Shape};

const MOST: Duration = Duration::from_secs(2);

#[track_caller]
fn is_fast(name: &str, history: &[Operation], is_good: bool) {
    let start = Instant::now();
    let report = check(history, STEPS_MAX);
    let took = start.elapsed();
    println!("{name}: {took:.1?}, {} steps", report.steps);
    assert!(report.too_hard.is_empty(), "{name}: {report}");
    assert_eq!(report.is_linearizable(), is_good, "{name}: {report}");
    assert!(took < MOST, "{name} took {took:?}");
}

fn shape() -> Shape {
    Shape {
        operations: 5_000,
        clients: 10,
        values: 0,
        unknown: 0,
        all_actions: false,
        slow: 0,
    }
}

#[test]
fn five_thousand_operations_of_ten_clients_on_one_key() {
    is_fast("all answered", &register::history(1, &shape()), true);
    let unknown = Shape {
        unknown: 3,
        ..shape()
    };
    is_fast("150 unknown", &register::history(2, &unknown), true);
    let slow = Shape { slow: 5, ..shape() };
    is_fast("25 slow ones", &register::history(3, &slow), true);
    let both = Shape {
        unknown: 3,
        slow: 5,
        ..shape()
    };
    is_fast("slow and unknown ones", &register::history(4, &both), true);
    let same = Shape { values: 5, ..shape() };
    is_fast("five values", &register::history(5, &same), true);
    let all = Shape {
        all_actions: true,
        ..shape()
    };
    is_fast("creates and deletes", &register::history(6, &all), true);
}

#[test]
fn a_violation_in_five_thousand_operations() {
    let both = Shape {
        unknown: 3,
        slow: 5,
        ..shape()
    };
    let mut history = register::history(7, &both);
    let last_write = history
        .iter()
        .rposition(|one| one.outcome == Outcome::Done && matches!(one.action, Action::Write(_)))
        .unwrap();
    // Acknowledged, and vanished.
    let Action::Write(value) = history[last_write].action else {
        panic!("a write is a write");
    };
    let until = history.iter().map(|one| one.returned).max().unwrap();
    for (at, found) in [(1, value), (2, 1), (3, value)] {
        history.push(Operation {
            process: 99,
            key: "k".to_owned(),
            action: Action::Read(Some(found)),
            outcome: Outcome::Done,
            invoked: until + 10 * at,
            returned: until + 10 * at + 5,
        });
    }
    is_fast("a value that came back", &history, false);
}
