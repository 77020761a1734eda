//! Small histories of all kinds, judged by the checker and by trying all permutations.

use cheops_linear::{Action, Operation, Outcome, STEPS_MAX, check};

use crate::{
    dice::Dice,
    permutations::have_an_order,
    register::{self, Shape},
};

/// The verdicts are the same; what is shown as the core of a violation has no order either.
#[track_caller]
fn compare(seed: u64, history: &[Operation]) -> bool {
    let report = check(history, STEPS_MAX);
    let has_order = have_an_order(history);
    assert!(report.too_hard.is_empty(), "seed {seed}: {report}");
    assert_eq!(
        report.is_linearizable(),
        has_order,
        "seed {seed}: {history:#?}\n{report}"
    );
    for violation in &report.violations {
        assert!(!have_an_order(&violation.core), "seed {seed}: {violation}");
        assert!(
            violation.core.contains(&violation.wrong),
            "seed {seed}: {violation}"
        );
    }
    has_order
}

/// Anything at all.
fn any(dice: &mut Dice) -> Vec<Operation> {
    let values = 1 + dice.throw(3);
    // Few actions at a time, so that histories with deletes are not all of them.
    let actions = 2 + dice.throw(4);
    let longest = 1 + dice.throw(8);
    let count = 1 + dice.throw(6);
    let operation = |process| {
        let value = dice.throw(values);
        let action = match dice.throw(actions) {
            0 if dice.throw(4) == 0 => Action::Read(None),
            0 => Action::Read(Some(value)),
            1 => Action::Write(value),
            2 => Action::CompareAndSet {
                expected: dice.throw(values),
                value,
            },
            3 => Action::Create(value),
            _ => Action::Delete,
        };
        let has_condition = !matches!(action, Action::Read(_) | Action::Write(_));
        let outcome = match dice.throw(12) {
            0..=3 if has_condition => Outcome::Unmet,
            0..=7 => Outcome::Done,
            8..=10 => Outcome::Unknown,
            _ => Outcome::Refused,
        };
        let invoked = dice.throw(12);
        Operation {
            process,
            key: "k".to_owned(),
            action,
            outcome,
            invoked,
            returned: invoked + dice.throw(longest),
        }
    };
    (0..count as u32).map(operation).collect()
}

#[test]
fn any_small_history_is_judged_as_all_permutations_judge_it() {
    const HISTORIES: u64 = 100_000;
    let mut good = 0;
    for seed in 0..HISTORIES {
        good += u64::from(compare(seed, &any(&mut Dice::of(seed))));
    }
    assert!(
        (HISTORIES / 5..HISTORIES * 4 / 5).contains(&good),
        "{good} are good: too one-sided"
    );
}

/// Of a register that works, and then with one answer changed: close to the border.
#[test]
fn small_histories_that_are_nearly_right_are_judged_as_all_permutations_judge_them() {
    const HISTORIES: u64 = 20_000;
    let mut bad = 0;
    for seed in 0..HISTORIES {
        let mut dice = Dice::of(seed);
        let shape = Shape {
            operations: 3 + dice.throw(4) as usize,
            clients: 2 + dice.throw(3) as u32,
            values: dice.throw(4),
            unknown: 15,
            all_actions: dice.throw(2) == 0,
            slow: 50,
        };
        let mut history = register::history(seed, &shape);
        assert!(compare(seed, &history), "seed {seed} is made to be good");
        let at = dice.throw(history.len() as u64) as usize;
        let value = 1 + dice.throw(3);
        match &mut history[at].action {
            Action::Read(found) => *found = Some(value),
            Action::Write(own) | Action::Create(own) => *own = value,
            Action::CompareAndSet { expected, .. } => *expected = value,
            Action::Delete => history[at].outcome = Outcome::Unmet,
        }
        bad += u64::from(!compare(seed, &history));
    }
    assert!(bad > HISTORIES / 10, "only {bad} are bad");
}

#[test]
fn long_histories_of_a_register_that_works_are_linearizable() {
    for seed in 0..300 {
        let mut dice = Dice::of(seed);
        let shape = Shape {
            operations: 300,
            clients: 2 + dice.throw(10) as u32,
            values: dice.throw(3) * 5,
            unknown: dice.throw(4),
            all_actions: false,
            slow: dice.throw(2) * 10,
        };
        let report = check(&register::history(seed, &shape), STEPS_MAX);
        assert!(report.is_linearizable(), "seed {seed}: {report}");
    }
}

/// Each value is written once, so a read of one that was certainly replaced long before is wrong.
#[test]
fn a_stale_read_in_a_long_history_is_found() {
    for seed in 0..50 {
        let shape = Shape {
            operations: 400,
            clients: 8,
            values: 0,
            unknown: 2,
            all_actions: false,
            slow: 0,
        };
        let mut history = register::history(seed, &shape);
        let done = |one: &Operation| one.outcome == Outcome::Done;
        let read_late = history
            .iter()
            .rposition(|one| done(one) && matches!(one.action, Action::Read(_)));
        let early = history
            .iter()
            .find(|one| done(one) && matches!(one.action, Action::Write(_)));
        let (read_late, Action::Write(early)) = (read_late.unwrap(), early.unwrap().action) else {
            panic!("a write is a write");
        };
        history[read_late].action = Action::Read(Some(early));
        let report = check(&history, STEPS_MAX);
        let violation = report
            .violations
            .first()
            .unwrap_or_else(|| panic!("seed {seed}: {report}"));
        assert_eq!(violation.wrong, history[read_late], "seed {seed}: {violation}");
        assert!(violation.core.len() <= 4, "seed {seed}: {violation}");
    }
}
