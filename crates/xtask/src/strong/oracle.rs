//! The judge of what everybody has in the end, beside the checker of histories. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cheops_linear::Operation;

use super::{
    history::{Born, Call, Fate, History, Kind, Number, key},
    journal::Journal,
    look::Finals,
};
use crate::trouble::{Site, name};

/// Processes of the checker that are applications, asked past their agents when all was over.
const APPLICATIONS: u32 = 1_000;

/// Something that must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Applications do not have the same.
    Unequal,
    /// An application has it more than once.
    Twice { site: Site, times: usize },
    /// A create or a write that was refused was executed all the same.
    RefusedExecuted { number: Number, site: Site },
    /// An acknowledged create or write was executed nowhere.
    NotExecuted { number: Number, site: Site },
    /// A value that nobody asked for.
    Invented { number: Number, site: Site },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) born: Born,
    pub(super) what: What,
}

/// What the applications have and have executed, by site.
pub(super) fn judge(history: &History, finals: &[Finals], journals: &[Journal]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for born in history.resources.keys() {
        let own: Vec<_> = finals.iter().map(|finals| finals.get(born)).collect();
        if own.iter().any(|other| *other != own[0]) {
            violations.push(Violation {
                born: *born,
                what: What::Unequal,
            });
        }
        for (site, values) in own.iter().enumerate() {
            let times = values.map_or(0, Vec::len);
            if times > 1 {
                let what = What::Twice { site, times };
                violations.push(Violation { born: *born, what });
            }
        }
    }
    let sets = |call: &&Call| matches!(call.kind, Kind::Create | Kind::Write);
    let asked: BTreeMap<Number, &Call> = history
        .calls
        .iter()
        .filter(sets)
        .map(|call| (call.number, call))
        .collect();
    for (site, journal) in journals.iter().enumerate() {
        for (born, values) in &journal.0 {
            for number in values {
                let what = match asked.get(number).map(|call| (call.born, &call.fate)) {
                    Some((own, Fate::Refused(_) | Fate::Unmet(_))) if own == *born => What::RefusedExecuted {
                        number: *number,
                        site,
                    },
                    Some((own, _)) if own == *born => continue,
                    _ => What::Invented {
                        number: *number,
                        site,
                    },
                };
                violations.push(Violation { born: *born, what });
            }
        }
    }
    let executed = journals.iter().flat_map(|journal| journal.0.values().flatten());
    let executed: BTreeSet<Number> = executed.copied().collect();
    for call in asked.values().filter(|call| call.fate.is_done()) {
        // A site that was far behind may have been given the state instead, but somebody has executed it.
        if !executed.contains(&call.number) {
            let what = What::NotExecuted {
                number: call.number,
                site: call.through,
            };
            violations.push(Violation {
                born: call.born,
                what,
            });
        }
    }
    violations.sort_by_key(|violation| violation.born);
    violations.dedup();
    violations
}

/// The history as the checker wants it: what callers were told, and what every application has in the end as one more
/// read of it.
pub(super) fn operations(
    calls: &[&Call],
    finals: &[Finals],
    at_us: u64,
    resources: &[Born],
) -> Vec<Operation> {
    let mut operations: Vec<_> = calls.iter().map(|call| call.operation()).collect();
    for (site, finals) in finals.iter().enumerate() {
        for born in resources {
            operations.push(Operation {
                process: APPLICATIONS + site as u32,
                key: key(*born),
                action: cheops_linear::Action::Read(
                    finals.get(born).and_then(|values| values.first().copied()),
                ),
                outcome: cheops_linear::Outcome::Done,
                invoked: at_us,
                returned: at_us,
            });
        }
    }
    operations
}

impl What {
    /// What it is counted under.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Unequal => "applications do not have the same",
            Self::Twice { .. } => "an application has it twice",
            Self::RefusedExecuted { .. } => "executed, though refused",
            Self::NotExecuted { .. } => "executed nowhere, though acknowledged",
            Self::Invented { .. } => "a value that nobody asked for",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Unequal => f.write_str(kind),
            Self::Twice { site, times } => write!(f, "{kind}: {times} times at {}", name(*site)),
            Self::NotExecuted { number, site } => write!(f, "{kind}: {number}, asked at {}", name(*site)),
            Self::RefusedExecuted { number, site } | Self::Invented { number, site } => {
                write!(f, "{kind}: {number} at {}", name(*site))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use cheops_linear::{STEPS_MAX, check};

    use super::{super::history::Resource, *};

    fn call(number: Number, born: Born, kind: Kind, fate: Fate) -> Call {
        Call {
            number,
            born,
            kind,
            caller: 1,
            through: 0,
            sent_us: number * 10,
            over_us: number * 10 + 5,
            fate,
        }
    }

    fn done() -> Fate {
        Fate::Done {
            found: None,
            origin: None,
        }
    }

    fn history(calls: &[Call]) -> History {
        let resource = |call: &Call| {
            let resource = Resource {
                collection: "items",
                path: None,
            };
            (call.born, resource)
        };
        History {
            resources: calls.iter().map(resource).collect(),
            calls: calls.to_vec(),
            unsent: 0,
        }
    }

    /// Two sites that executed these values of resource 1, the last of which they have.
    #[track_caller]
    fn judged(calls: &[Call], executed: [&[Number]; 2], expected: &[What]) {
        let finals = executed.map(|values| {
            let last = values.last().map(|last| (1, vec![*last]));
            last.into_iter().collect::<Finals>()
        });
        let journals = executed.map(|values| Journal(BTreeMap::from([(1, values.to_vec())])));
        let found = judge(&history(calls), &finals, &journals);
        let found: Vec<_> = found.into_iter().map(|violation| violation.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_acknowledged_and_executed_in_order_is_right() {
        let calls = [call(1, 1, Kind::Create, done()), call(2, 1, Kind::Write, done())];
        judged(&calls, [&[1, 2], &[1, 2]], &[]);
        // A site may be given the state, and may repeat what is harmless.
        judged(&calls, [&[1, 2], &[2]], &[]);
        judged(&calls, [&[1, 2, 2], &[1, 2]], &[]);
    }

    #[test]
    fn what_must_not_be_is_found() {
        let create = call(1, 1, Kind::Create, done());
        let write = |fate| [create.clone(), call(2, 1, Kind::Write, fate)];
        judged(&write(done()), [&[1, 2], &[1]], &[What::Unequal]);
        judged(
            &write(done()),
            [&[1], &[1]],
            &[What::NotExecuted { number: 2, site: 0 }],
        );
        judged(
            &write(Fate::Refused(String::new())),
            [&[1, 2, 1], &[1]],
            &[What::RefusedExecuted { number: 2, site: 0 }],
        );
        judged(
            &write(done()),
            [&[1, 2], &[1, 9, 2]],
            &[What::Invented { number: 9, site: 1 }],
        );
        judged(&write(Fate::Unknown(String::new())), [&[1], &[1]], &[]);
        judged(&write(Fate::Unknown(String::new())), [&[1, 2], &[1, 2]], &[]);
        let twice = [Finals::from([(1, vec![1, 1])])];
        let journals = [Journal(BTreeMap::from([(1, vec![1, 1])]))];
        assert_eq!(
            judge(&history(std::slice::from_ref(&create)), &twice, &journals),
            [Violation {
                born: 1,
                what: What::Twice { site: 0, times: 2 }
            }]
        );
    }

    #[test]
    fn what_applications_have_is_a_read() {
        let calls = [call(1, 1, Kind::Create, done()), call(2, 1, Kind::Write, done())];
        let calls: Vec<_> = calls.iter().collect();
        let ended = |value| {
            let finals = [Finals::from([(1, vec![value])]), Finals::from([(1, vec![2])])];
            check(&operations(&calls, &finals, 100, &[1]), STEPS_MAX)
        };
        assert!(ended(2).is_linearizable());
        let lost = ended(1);
        assert_eq!(lost.violations[0].wrong.process, APPLICATIONS, "{lost}");
    }
}
