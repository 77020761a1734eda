//! Operations as lines under each other, each with a bar from its invocation to its answer.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{Operation, Outcome};

/// Columns of the bars. Moments are placed by their order: what counts is what overlaps, not how long it took.
const COLUMNS: usize = 48;

/// A line for each operation, in their order; the wrong one has a mark.
pub(crate) fn draw(operations: &[Operation], wrong: &Operation) -> String {
    let mut moments = BTreeSet::new();
    for operation in operations {
        moments.insert(operation.invoked);
        if operation.outcome != Outcome::Unknown {
            moments.insert(operation.returned);
        }
    }
    let moments: Vec<_> = moments.into_iter().collect();
    let last = moments.len().saturating_sub(1).max(1);
    // Two columns for each moment at most, so that few operations do not make long bars.
    let columns = COLUMNS.min(2 * moments.len());
    let column = |moment: u64| moments.partition_point(|other| *other < moment) * (columns - 1) / last;
    let mut text = String::new();
    for operation in operations {
        let from = column(operation.invoked);
        let bar = if operation.outcome == Outcome::Unknown {
            format!("{}├{}", " ".repeat(from), "┄".repeat(columns - 1 - from))
        } else {
            let to = column(operation.returned);
            let bar = match to - from {
                0 => "│".to_owned(),
                length => format!("├{}┤", "─".repeat(length - 1)),
            };
            format!("{}{bar}{}", " ".repeat(from), " ".repeat(columns - 1 - to))
        };
        let mark = if operation == wrong { "◀" } else { " " };
        // Text takes everything.
        let _ = writeln!(
            text,
            "    p{:<4}{:<18} {:<8}{bar} {mark}  {} … {}",
            operation.process,
            operation.action.to_string(),
            operation.outcome.as_str(),
            operation.invoked,
            match operation.outcome {
                Outcome::Unknown => "?".to_owned(),
                _ => operation.returned.to_string(),
            }
        );
    }
    text
}
