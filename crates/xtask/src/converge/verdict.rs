//! From what was looked at to a verdict: what the faults excuse, what they do not, and what the oracle finds. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    history::{CHOSEN_FILE, History, Write, WriteId},
    look::{Operation, Set},
    oracle::{Violation, What},
};
use crate::trouble::{FAR_AHEAD_S, Log, Site, name, number};

/// What is said of operations and sets that are not settled.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Resources that may still differ.
    pub(super) excused: BTreeSet<WriteId>,
    pub(super) violations: Vec<Violation>,
    /// Operations without an outcome, by state; excused ones have a reason behind it.
    pub(super) counts: BTreeMap<String, usize>,
}

/// Why an operation may still wait, or that it may not.
#[derive(Debug, PartialEq, Eq)]
enum Reason {
    Excused(&'static str),
    Wrong(String),
    /// What counts is whether replicas are the same.
    Shown,
}

pub(super) fn unsettled(
    open: &[(Site, Operation)],
    sets: &[(Site, Set)],
    born: &BTreeMap<String, WriteId>,
    history: &History,
    log: &Log,
) -> Unsettled {
    let mut all = Unsettled::default();
    let by_operation: BTreeMap<&str, &Write> = history
        .writes
        .iter()
        .filter_map(|write| Some((write.acknowledged()?.operation.as_str(), write)))
        .collect();
    for (site, operation) in open {
        let own = born.get(&operation.set).copied();
        let write = by_operation.get(operation.id.as_str()).copied();
        match reason(operation, is_named(operation, sets), write, log) {
            Reason::Excused(why) => {
                all.excused.extend(own);
                *all.counts
                    .entry(format!("{} ({why})", operation.state))
                    .or_default() += 1;
            }
            Reason::Wrong(why) => {
                *all.counts.entry(operation.state.clone()).or_default() += 1;
                let why = format!("{} at {}: {why}", operation.id, name(*site));
                all.violations.push(Violation {
                    born: own.unwrap_or(0),
                    what: What::Stuck(why),
                });
            }
            Reason::Shown => *all.counts.entry(operation.state.clone()).or_default() += 1,
        }
    }
    for (site, set) in sets.iter().filter(|(_, set)| set.state == "degraded") {
        *all.counts.entry("degraded sets".to_owned()).or_default() += 1;
        let what = What::Degraded(format!("set {} says {}", set.meta_id, name(*site)));
        let own = born.get(&set.meta_id).copied().unwrap_or(0);
        all.violations.push(Violation { born: own, what });
    }
    // What waits behind an excused operation is excused with it.
    let Unsettled {
        excused, violations, ..
    } = &mut all;
    violations.retain(|violation| !excused.contains(&violation.born));
    all
}

/// Whether the caller chose the id of the operation's resource.
fn is_named(operation: &Operation, sets: &[(Site, Set)]) -> bool {
    let mut own = sets.iter().filter(|(_, set)| set.meta_id == operation.set);
    operation.kind == "label" || own.any(|(_, set)| set.id.starts_with(CHOSEN_FILE))
}

fn reason(operation: &Operation, is_named: bool, write: Option<&Write>, log: &Log) -> Reason {
    match operation.state.as_str() {
        // A name alone proves nothing, so an operator must look. Everything else can be found out.
        "in-doubt" if is_named && operation.verb == "create" => {
            Reason::Excused("a create whose id its caller chose, for an operator")
        }
        "in-doubt" => Reason::Wrong("in doubt, although the application can be asked".to_owned()),
        "quarantined" => {
            let (from_ms, to_ms) = write.map_or((0, u64::MAX), |write| (write.sent_ms, write.over_ms()));
            let origin = number(&operation.origin).unwrap_or(0);
            if log.was_ahead(origin, FAR_AHEAD_S, from_ms, to_ms) {
                Reason::Excused("accepted while its site's clock was far ahead")
            } else {
                Reason::Wrong("quarantined, although its site's clock was not far ahead then".to_owned())
            }
        }
        _ => Reason::Shown,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::history::{Acknowledged, Fate, Kind},
        *,
    };
    use crate::trouble::{Fault, Planned};

    fn operation(state: &str, kind: &str) -> Operation {
        Operation {
            id: "72:site1.9.0.1".to_owned(),
            set: "72".to_owned(),
            kind: kind.to_owned(),
            verb: "create".to_owned(),
            origin: "site1".to_owned(),
            state: state.to_owned(),
            status: None,
        }
    }

    fn write(sent_ms: u64) -> Write {
        let fate = Fate::Acknowledged(Acknowledged {
            at_ms: sent_ms + 1,
            operation: "72:site1.9.0.1".to_owned(),
            origin: 0,
            seen: None,
        });
        Write {
            id: 1,
            born: 1,
            kind: Kind::Create,
            through: 0,
            sent_ms,
            fate,
        }
    }

    #[test]
    fn quarantine_is_excused_only_by_the_clock_of_that_moment() {
        let log = |offset_s| {
            let fault = Fault::Clock { site: 0, offset_s };
            let planned = Planned {
                at_ms: 10,
                until_ms: 20,
                fault,
            };
            Log(vec![planned])
        };
        let held = operation("quarantined", "item");
        let is_excused = |at_ms, offset_s| {
            matches!(
                reason(&held, false, Some(&write(at_ms)), &log(offset_s)),
                Reason::Excused(_)
            )
        };
        assert!(is_excused(15, 3_600));
        assert!(!is_excused(30, 3_600), "its clock was right again");
        assert!(!is_excused(15, 50));
        assert!(!is_excused(15, -3_600));
        assert_eq!(
            reason(&operation("blocked", "item"), false, None, &log(0)),
            Reason::Shown
        );
    }

    #[test]
    fn only_what_callers_named_may_be_in_doubt() {
        let said = |is_named| reason(&operation("in-doubt", "file"), is_named, None, &Log::default());
        assert!(matches!(said(true), Reason::Excused(_)));
        assert!(matches!(said(false), Reason::Wrong(_)));
        let set = |id: &str| Set {
            meta_id: "72".to_owned(),
            id: id.to_owned(),
            kind: "file".to_owned(),
            state: "in-doubt".to_owned(),
            local_id: None,
        };
        let named = |kind, id: &str| is_named(&operation("in-doubt", kind), &[(0, set(id))]);
        assert!(named("label", "n7"));
        assert!(named("file", &format!("{CHOSEN_FILE}000000000007")));
        assert!(!named("file", "4bf92f35-77b3-4da6-a3ce-929d0e0e4736"));
        assert!(!named("item", "72"));
    }

    #[test]
    fn what_waits_behind_an_excused_operation_is_excused() {
        let mut behind = operation("quarantined", "label");
        "replace".clone_into(&mut behind.verb);
        let born = BTreeMap::from([("72".to_owned(), 1)]);
        let judged = |open: &[Operation]| {
            let open: Vec<_> = open.iter().map(|one| (0, one.clone())).collect();
            unsettled(&open, &[], &born, &History::default(), &Log::default())
        };
        let alone = judged(std::slice::from_ref(&behind));
        assert_eq!((alone.violations.len(), alone.excused.len()), (1, 0));
        let both = judged(&[behind, operation("in-doubt", "label")]);
        assert_eq!((both.violations.len(), both.excused.len()), (0, 1));
    }
}
