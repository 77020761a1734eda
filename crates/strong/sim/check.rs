//! Is a history of one register linearizable? Wing and Gong's search, with a memory of what failed.
//!
//! An operation that nobody knows the end of may take effect at any time after its start, or never.

use std::collections::HashSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    Write(u64),
    /// Succeeded: the register had `from` and has `to`.
    Swapped {
        from: u64,
        to: u64,
    },
    /// Was refused because the register did not have `from`.
    NotSwapped {
        from: u64,
    },
    Read(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub call: Call,
    pub start: u64,
    /// When it was answered, if it was.
    pub end: Option<u64>,
    pub who: String,
}

/// The first value of every register.
pub const EMPTY: u64 = 0;

/// `Err` has the history, which no order of its operations explains.
pub fn check(history: &[Operation]) -> Result<(), String> {
    assert!(
        history.len() <= 128,
        "{} operations are too many for one register",
        history.len()
    );
    let done: u128 = history
        .iter()
        .enumerate()
        .filter(|(_, operation)| operation.end.is_some())
        .fold(0, |bits, (at, _)| bits | 1 << at);
    let mut failed = HashSet::new();
    if search(history, done, 0, EMPTY, &mut failed) {
        return Ok(());
    }
    let mut lines: Vec<_> = history.iter().collect();
    lines.sort_by_key(|operation| operation.start);
    let lines: Vec<String> = lines.iter().map(|operation| format!("  {operation:?}")).collect();
    Err(lines.join("\n"))
}

/// Whether the rest can be put in an order, after the operations of `taken`, which left `value`.
fn search(
    history: &[Operation],
    done: u128,
    taken: u128,
    value: u64,
    failed: &mut HashSet<(u128, u64)>,
) -> bool {
    if taken & done == done {
        return true;
    }
    if !failed.insert((taken, value)) {
        return false;
    }
    // An operation can be next if none that is left was over before it began.
    let left = |at: &usize| taken & (1 << at) == 0;
    let first_end = (0..history.len())
        .filter(left)
        .filter_map(|at| history[at].end)
        .min()
        .unwrap_or(u64::MAX);
    (0..history.len())
        .filter(left)
        .filter(|at| history[*at].start <= first_end)
        .any(|at| {
            let next = match history[at].call {
                Call::Write(to) => Some(to),
                Call::Swapped { from, to } => (value == from).then_some(to),
                Call::NotSwapped { from } => (value != from).then_some(value),
                Call::Read(read) => (value == read).then_some(value),
            };
            next.is_some_and(|value| search(history, done, taken | 1 << at, value, failed))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(call: Call, start: u64, end: u64) -> Operation {
        Operation {
            call,
            start,
            end: (end > 0).then_some(end),
            who: String::new(),
        }
    }

    #[test]
    fn the_checker_knows_right_from_wrong() {
        use Call::{NotSwapped, Read, Swapped, Write};
        let write = operation(Write(1), 1, 4);
        check(&[write.clone(), operation(Read(0), 2, 3), operation(Read(1), 2, 5)]).unwrap();
        check(&[write.clone(), operation(Read(1), 2, 3), operation(Read(0), 4, 5)]).unwrap_err();
        check(&[write.clone(), operation(Read(0), 5, 6)]).unwrap_err();
        let unknown = operation(Write(2), 2, 0);
        check(&[
            write.clone(),
            unknown.clone(),
            operation(Read(1), 9, 10),
            operation(Read(2), 11, 12),
        ])
        .unwrap();
        check(&[
            write.clone(),
            unknown,
            operation(Read(2), 9, 10),
            operation(Read(1), 11, 12),
        ])
        .unwrap_err();
        check(&[
            write.clone(),
            operation(Swapped { from: 1, to: 3 }, 5, 6),
            operation(Read(3), 7, 8),
        ])
        .unwrap();
        check(&[write.clone(), operation(Swapped { from: 0, to: 3 }, 5, 6)]).unwrap_err();
        check(&[write, operation(NotSwapped { from: 1 }, 5, 6)]).unwrap_err();
    }
}
