//! Replica sets for people.

use std::fmt::Write as _;

use cheops_node::model::{
    Afterwards, Comparison, Difference, Replica, SetDetail, SetList, SetSummary, Verification,
};
use cheops_types::SiteName;

use crate::cli::{ask::or_dash, conflicts, ops, output::columns, pages};

pub(super) fn list(list: &SetList) -> String {
    let row = |set: &SetSummary| {
        vec![
            set.id.clone(),
            set.service.to_string(),
            set.kind.clone(),
            set.state.to_string(),
            names(&set.sites),
            or_dash(set.local_id.as_deref()),
            set.conflicts.to_string(),
            if set.meta_id == set.id {
                "-".to_owned()
            } else {
                set.meta_id.clone()
            },
        ]
    };
    let rows: Vec<_> = list.sets.iter().map(row).collect();
    let heading = [
        "ID",
        "SERVICE",
        "KIND",
        "STATE",
        "SITES",
        "LOCAL ID",
        "CONFLICTS",
        "META-ID",
    ];
    pages::shown(list, "no replica sets", || columns(&heading, &rows))
}

pub(super) fn detail(detail: &SetDetail) -> String {
    let set = &detail.set;
    let mut text = format!("id       {}\n", set.id);
    if set.id != set.meta_id {
        let _ = writeln!(text, "meta-id  {}", set.meta_id);
    }
    let _ = writeln!(
        text,
        "service  {}\nkind     {}\nstate    {}",
        set.service, set.kind, set.state
    );
    if !set.consistency.is_eventual() {
        text.push_str("strong   its sites decide together\n");
    }
    if let Some(why) = &detail.fenced {
        let _ = writeln!(text, "fenced   {why}");
    }
    if !detail.removed.is_empty() {
        let _ = writeln!(text, "removed  {}", names(&detail.removed));
    }
    text.push('\n');
    let rows: Vec<_> = detail.replicas.iter().map(replica).collect();
    text.push_str(&columns(
        &["SITE", "STATE", "LOCAL ID", "HELD", "DONE", "NOTE"],
        &rows,
    ));
    for replica in &detail.replicas {
        if let Some(said) = &replica.said {
            let _ = writeln!(text, "\n{}: {said}", replica.site);
        }
    }
    if !detail.waiting.is_empty() {
        text.push_str("\nnot settled here\n");
        text.push_str(&ops::table(&detail.waiting));
    }
    if !detail.conflicts.is_empty() {
        text.push_str("\nconflicts\n");
        text.push_str(&conflicts::table(&detail.conflicts));
    }
    if detail.set.conflicts_dropped > 0 {
        let dropped = detail.set.conflicts_dropped;
        let _ = writeln!(
            text,
            "\n{dropped} older conflicts are not kept: there were too many, or the log was full"
        );
    }
    text
}

/// What an operator's decision led to.
pub(in crate::cli) fn afterwards(after: &Afterwards) -> String {
    match &after.set {
        Some(set) => detail(set),
        None => "the set came to nothing, as its create did".to_owned(),
    }
}

fn replica(replica: &Replica) -> Vec<String> {
    let about = match (replica.status, &replica.operation) {
        (Some(status), Some(operation)) => format!("answered {status} to {operation}"),
        (Some(status), None) => format!("answered {status}"),
        (None, Some(operation)) if replica.waiting.is_some() => operation.clone(),
        _ if replica.here => "here".to_owned(),
        _ => String::new(),
    };
    let note = match replica.waiting {
        Some(waiting) => format!("{waiting}: {about}"),
        None => about,
    };
    vec![
        replica.site.to_string(),
        replica.state.to_string(),
        or_dash(replica.local_id.as_deref()),
        replica.held.to_string(),
        replica.done.to_string(),
        note,
    ]
}

pub(super) fn verification(found: &Verification) -> String {
    let rows: Vec<_> = found
        .replicas
        .iter()
        .map(|replica| {
            let about = match replica.comparison {
                Comparison::Different => places(replica.differences.len()),
                _ => replica.reason.clone().unwrap_or_default(),
            };
            vec![replica.site.to_string(), replica.comparison.to_string(), about]
        })
        .collect();
    let mut text = columns(&["SITE", "REPLICA", ""], &rows);
    for replica in found
        .replicas
        .iter()
        .filter(|replica| !replica.differences.is_empty())
    {
        let reference = found.reference.as_ref().map_or("reference", SiteName::as_str);
        text.push('\n');
        let site = replica.site.as_str();
        text.push_str(&differences(reference, site, &replica.differences));
    }
    text.push('\n');
    text.push_str(match (found.same, found.repaired) {
        (true, _) => "all replicas are the same\n",
        (false, true) => "not all replicas are the same yet; `cheops ops ls` shows what waits\n",
        (false, false) => "not all replicas are the same; --repair brings them back to the reference\n",
    });
    text
}

/// What differs, side by side.
pub(in crate::cli) fn differences(left: &str, right: &str, differences: &[Difference]) -> String {
    let value =
        |value: &Option<serde_json::Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
    let rows: Vec<_> = differences
        .iter()
        .map(|difference| {
            let pointer = match difference.pointer.as_str() {
                "" => "the whole",
                pointer => pointer,
            };
            vec![
                pointer.to_owned(),
                value(&difference.left),
                value(&difference.right),
            ]
        })
        .collect();
    columns(&["DIFFERS AT", left, right], &rows)
}

fn places(number: usize) -> String {
    match number {
        0 => String::new(),
        1 => "at one place".to_owned(),
        number => format!("at {number} places"),
    }
}

fn names(sites: &[SiteName]) -> String {
    let names: Vec<_> = sites.iter().map(SiteName::as_str).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use cheops_node::model::VerifiedReplica;
    use serde_json::{Value, json};

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> SetDetail {
        let mut set = json!({
            "set": {
                "meta_id": "72", "id": "72", "service": "A", "kind": "order", "state": "degraded",
                "local_id": "42", "sites": ["site1", "site2"], "conflicts": 0,
            },
            "epoch": 0,
            "replicas": [
                {"site": "site1", "here": true, "local_id": "42", "state": "ok",
                 "operation": null, "status": null, "held": 3, "done": 3},
                {"site": "site2", "here": false, "local_id": null, "state": "degraded",
                 "operation": "72:site1.7.0.3", "status": 422, "held": 3, "done": 2},
            ],
            "removed": [], "waiting": [], "conflicts": [],
        });
        change(&mut set);
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn a_set_is_shown_with_its_replicas() {
        let expected = "\
id       72
service  A
kind     order
state    degraded

SITE   STATE     LOCAL ID  HELD  DONE  NOTE
site1  ok        42        3     3     here
site2  degraded  -         3     2     answered 422 to 72:site1.7.0.3
";
        assert_eq!(detail(&set(|_| {})), expected);
    }

    #[test]
    fn what_an_application_says_is_shown() {
        let shown = detail(&set(|set| {
            set["replicas"][1]["said"] = json!("ann may not create orders");
        }));
        let expected = "answered 422 to 72:site1.7.0.3\n\nsite2: ann may not create orders\n";
        assert!(shown.ends_with(expected), "{shown}");
    }

    #[test]
    fn a_replica_says_what_its_first_operation_waits_for() {
        let note = |waiting: &str, status: Value| {
            let shown = detail(&set(|set| {
                set["replicas"][1]["waiting"] = json!(waiting);
                set["replicas"][1]["status"] = status;
            }));
            let line = shown.lines().find(|line| line.starts_with("site2"));
            line.unwrap().split_once(" 2     ").unwrap().1.to_owned()
        };
        let needy = note("needs-credentials", Value::Null);
        assert_eq!(needy, "needs-credentials: 72:site1.7.0.3");
        let blocked = note("blocked", json!(403));
        assert_eq!(blocked, "blocked: answered 403 to 72:site1.7.0.3");
    }

    #[test]
    fn a_set_with_a_name_shows_both_ids() {
        let named = set(|set| set["set"]["id"] = json!("web"));
        assert!(detail(&named).starts_with("id       web\nmeta-id  72\n"));
        let list = SetList {
            sets: vec![named.set],
            next: Some("72".to_owned()),
        };
        let expected = "\
ID   SERVICE  KIND   STATE     SITES        LOCAL ID  CONFLICTS  META-ID
web  A        order  degraded  site1 site2  42        0          72
there are more: --limit shows them
";
        assert_eq!(super::list(&list), expected);
    }

    #[test]
    fn what_differs_is_shown_side_by_side() {
        let replica = |site: &str, comparison, differences| VerifiedReplica {
            site: SiteName::new(site).unwrap(),
            comparison,
            digest: None,
            differences,
            reason: (comparison == Comparison::Unreachable).then(|| "it is down".to_owned()),
        };
        let difference = Difference {
            pointer: "/name".to_owned(),
            left: Some(json!("tea")),
            right: None,
        };
        let found = Verification {
            set: "72".to_owned(),
            reference: Some(SiteName::new("site1").unwrap()),
            same: false,
            repaired: false,
            replicas: vec![
                replica("site1", Comparison::Reference, Vec::new()),
                replica("site2", Comparison::Different, vec![difference]),
                replica("site3", Comparison::Unreachable, Vec::new()),
            ],
        };
        let expected = "\
SITE   REPLICA
site1  reference
site2  different    at one place
site3  unreachable  it is down

DIFFERS AT  site1  site2
/name       \"tea\"  -

not all replicas are the same; --repair brings them back to the reference
";
        assert_eq!(verification(&found), expected);
    }
}
