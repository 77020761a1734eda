use cheops_store::Pending;

use super::*;
use crate::{
    lab::{Lab, service, site},
    rows::Sets,
};

/// A set as the engine stores it.
struct Known<'k> {
    meta: &'k str,
    kind: &'k str,
    local: Option<&'k str>,
    local_key: Option<&'k str>,
    name: Option<&'k str>,
    standing: HeadStanding,
}

const NOTHING: Known<'_> = Known {
    meta: "",
    kind: "/projects",
    local: None,
    local_key: None,
    name: None,
    standing: HeadStanding::Member,
};

fn lab(sets: &[Known<'_>]) -> Lab {
    let lab = Lab::new("a");
    for set in sets {
        let row = SetRow {
            service: service("X"),
            kind: set.kind.to_owned(),
            local_key: set.local_key.or(set.local).map(str::to_owned),
            name: set.name.map(str::to_owned),
            head: Head {
                shown: set.name.unwrap_or(set.meta).to_owned(),
                local: set.local.map(str::to_owned),
                sites: ["a", "b"].map(site).to_vec(),
                standing: set.standing,
                span: None,
                shares: Vec::new(),
                has_moved: false,
                begun: Some(1),
                held_hash: 0,
                deleted_ms: None,
                consistency: cheops_types::Consistency::Eventual,
            },
        };
        let meta = set.meta.to_owned();
        let put = lab
            .core
            .store
            .write(move |session| session.put::<Sets>(&meta, &row));
        put.and_then(Pending::wait).unwrap();
    }
    lab
}

fn found(lab: &Lab, kind: &str, id: &str, key: &str) -> Option<String> {
    let read = lab.core.store.read().unwrap();
    let profile = lab.core.surroundings.profile();
    let found = Finder::new(&read, &profile).find("X", kind, id, key).unwrap();
    found.map(|(meta, _)| meta.as_str().to_owned())
}

#[test]
fn a_resource_below_another_is_found_whatever_its_parent_is_called() {
    let tasks = "/projects/{id}/tasks";
    let lab = lab(&[
        Known {
            meta: "p-meta",
            local: Some("1"),
            ..NOTHING
        },
        Known {
            meta: "t-meta",
            kind: tasks,
            local: Some("2"),
            local_key: Some("1/2"),
            ..NOTHING
        },
        Known {
            meta: "n-meta",
            kind: tasks,
            name: Some("p-meta/wash"),
            ..NOTHING
        },
    ]);
    for parent in ["1", "p-meta"] {
        for (id, meta) in [("2", "t-meta"), ("t-meta", "t-meta"), ("wash", "n-meta")] {
            let set = found(&lab, tasks, id, &format!("{parent}/{id}"));
            assert_eq!(set.as_deref(), Some(meta), "{parent}/{id}");
        }
    }
    assert_eq!(found(&lab, tasks, "2", "7/2"), None);
    assert_eq!(found(&lab, "/projects", "2", "2"), None);
}

#[test]
fn a_name_is_free_once_its_resource_is_deleted() {
    let old = Known {
        meta: "old",
        name: Some("x"),
        standing: HeadStanding::Deleted,
        ..NOTHING
    };
    let new = Known {
        meta: "new",
        name: Some("x"),
        ..NOTHING
    };
    assert_eq!(found(&lab(&[Known { ..old }]), "/projects", "x", "x"), None);
    let lab = lab(&[old, new]);
    assert_eq!(found(&lab, "/projects", "x", "x").as_deref(), Some("new"));
    // By the id that nothing else ever has, also what is gone is known.
    assert_eq!(found(&lab, "/projects", "old", "old").as_deref(), Some("old"));
}

#[test]
fn what_has_no_replica_here_is_told() {
    let lab = lab(&[
        Known {
            meta: "here",
            local: Some("1"),
            ..NOTHING
        },
        Known {
            meta: "pending",
            ..NOTHING
        },
    ]);
    let read = lab.core.store.read().unwrap();
    let ids = ToLocal::new(&read);
    let map = |id: &str| ids.map("X", "/projects", id, id);
    assert_eq!(map("here").as_deref(), Some("1"));
    assert_eq!(map("1").as_deref(), Some("1"));
    assert_eq!(map("unknown"), None);
    assert!(ids.missing().is_empty());
    assert_eq!(map("pending"), None);
    assert_eq!(ids.missing(), [MetaId::new("pending")]);
}
