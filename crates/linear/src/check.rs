//! The whole check: key by key, each by itself.

use std::{collections::BTreeMap, fmt};

use crate::{
    Operation, Violation, explain,
    search::{Found, search},
    steps::Steps,
};

/// Steps for one key that are enough for histories of many thousands of operations whose values differ, and little
/// enough that nobody waits for minutes.
pub const STEPS_MAX: u64 = 2_000_000;

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub keys: usize,
    pub operations: usize,
    /// Steps of the searches for an order, all keys together.
    pub steps: u64,
    /// At most one for each key.
    pub violations: Vec<Violation>,
    pub too_hard: Vec<TooHard>,
}

/// A key of which nothing is known: neither an order nor that there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooHard {
    pub key: String,
    pub operations: usize,
    /// How many there were, all in vain.
    pub steps: u64,
}

impl Report {
    /// True only if an order was found for every key.
    pub fn is_linearizable(&self) -> bool {
        self.violations.is_empty() && self.too_hard.is_empty()
    }
}

/// Looks for an order of each key's operations, `steps_max` steps long at most.
///
/// # Panics
///
/// If an operation's answer came before it was invoked: then the clock is none.
pub fn check(history: &[Operation], steps_max: u64) -> Report {
    let mut by_key: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
    for operation in history {
        assert!(
            operation.invoked <= operation.returned,
            "answered before it was invoked: {operation}"
        );
        by_key.entry(&operation.key).or_default().push(operation.clone());
    }
    let mut report = Report {
        keys: by_key.len(),
        operations: history.len(),
        ..Report::default()
    };
    for (key, operations) in by_key {
        let (found, steps) = search(&Steps::of(&operations), steps_max);
        report.steps += steps;
        match found {
            Found::Order => {}
            Found::None => report.violations.push(explain::explain(&operations, steps_max)),
            Found::TooHard => report.too_hard.push(TooHard {
                key: key.to_owned(),
                operations: operations.len(),
                steps,
            }),
        }
    }
    report
}

impl fmt::Display for TooHard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            operations,
            steps,
        } = self;
        write!(
            f,
            "{key}: {steps} steps did not tell whether its {operations} operations have an order"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for too_hard in &self.too_hard {
            writeln!(f, "{too_hard}")?;
        }
        write!(
            f,
            "{} operations on {} keys: {} keys not linearizable, {} too hard to tell ({} steps)",
            self.operations,
            self.keys,
            self.violations.len(),
            self.too_hard.len(),
            self.steps
        )
    }
}
