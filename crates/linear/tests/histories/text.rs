//! Histories as text: `p1 write 7 0-5`, `p1 cas 7 8 0-5 unmet`, `p2 read - 6-9 @key`.

use cheops_linear::{Action, Operation, Outcome};

pub(crate) fn history(text: &str) -> Vec<Operation> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(operation)
        .collect()
}

pub(crate) fn operation(line: &str) -> Operation {
    let mut words = line.split_whitespace();
    let mut next = || {
        words
            .next()
            .unwrap_or_else(|| panic!("a word is missing: {line}"))
    };
    let process = next().trim_start_matches('p').parse().unwrap();
    let verb = next();
    let mut value = || match next() {
        "-" => None,
        number => Some(number.parse().unwrap()),
    };
    let action = match verb {
        "read" => Action::Read(value()),
        "write" => Action::Write(value().unwrap()),
        "create" => Action::Create(value().unwrap()),
        "delete" => Action::Delete,
        "cas" => Action::CompareAndSet {
            expected: value().unwrap(),
            value: value().unwrap(),
        },
        other => panic!("{other}"),
    };
    let (invoked, returned) = next().split_once('-').unwrap();
    let mut operation = Operation {
        process,
        key: "k".to_owned(),
        action,
        outcome: Outcome::Done,
        invoked: invoked.parse().unwrap(),
        returned: returned.parse().unwrap(),
    };
    for word in words {
        match word {
            "done" => operation.outcome = Outcome::Done,
            "unmet" => operation.outcome = Outcome::Unmet,
            "refused" => operation.outcome = Outcome::Refused,
            "unknown" => operation.outcome = Outcome::Unknown,
            key => key.trim_start_matches('@').clone_into(&mut operation.key),
        }
    }
    operation
}
