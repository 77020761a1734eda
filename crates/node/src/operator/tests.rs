mod mesh;

use std::future::Future;

use cheops_plan::Target;
use cheops_ports::Reply;
use cheops_types::{Code, Problem};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use crate::model::{
    AddSite, Adopt, Cause, Comparison, ConflictFilter, Credential, Move, OperationFilter, OperationState,
    ReplicaState, SetDetail, SetFilter, SetHint, SetState, Settle, SiteState,
};
use mesh::{Fault, Mesh, name, write};

/// Nobody has to say more than the id.
const ANY: SetHint = SetHint {
    service: None,
    kind: None,
};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Problem>, code: Code) {
    assert_eq!(answer.unwrap_err().code, code);
}

fn order(name: &str) -> Value {
    json!({ "name": name })
}

fn at(site: &str) -> AddSite {
    AddSite {
        site: name(site),
        credential: Credential::default(),
    }
}

fn adopt(path: &str, sites: &[&str]) -> Adopt {
    Adopt {
        service: "A".to_owned(),
        path: Some(path.to_owned()),
        sites: sites.iter().map(|site| name(site)).collect(),
        ..Adopt::default()
    }
}

fn credential(value: &str) -> Credential {
    Credential([("Authorization".to_owned(), value.to_owned())].into())
}

#[test]
fn a_set_is_found_by_any_of_its_ids() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        let operator = mesh.at("site2");
        let set = operator.set(&meta, &ANY).await.unwrap();
        assert_eq!(set.set.id, meta);
        let local = set.set.local_id.clone().unwrap();
        assert_eq!(local, "1001");
        let sites: Vec<_> = set.replicas.iter().map(|replica| replica.site.as_str()).collect();
        assert_eq!(sites, ["site2", "site1"]);
        assert_eq!(set.replicas[1].local_id.as_deref(), Some("1"));
        assert_eq!(operator.set(&local, &ANY).await.unwrap(), set);
        let elsewhere = SetHint {
            service: Some("B".to_owned()),
            kind: None,
        };
        refused(operator.set(&local, &elsewhere).await, Code::UnknownReplicaSet);
        // Another site's id means nothing here.
        refused(operator.set("1", &ANY).await, Code::UnknownReplicaSet);
    });
}

#[test]
fn lists_come_in_pages_and_numbers_agree() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let mut metas = Vec::new();
        for _ in 0..5 {
            metas.push(mesh.order(&["site1", "site2"], &order("tea")).await);
        }
        metas.sort();
        let operator = mesh.at("site1");
        let mut found = Vec::new();
        let mut filter = SetFilter {
            limit: Some(2),
            site: Some(name("site2")),
            ..SetFilter::default()
        };
        loop {
            let page = operator.sets(filter.clone()).await.unwrap();
            assert!(page.sets.len() <= 2);
            found.extend(page.sets.into_iter().map(|set| set.meta_id));
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!(found, metas);
        let none = SetFilter {
            state: Some(SetState::Degraded),
            ..SetFilter::default()
        };
        assert_eq!(operator.sets(none).await.unwrap().sets, []);
        let metrics = operator.metrics().await;
        assert!(metrics.contains("\ncheops_replica_sets 5\n"), "{metrics}");
        assert!(
            metrics.contains("\ncheops_replication_lag{site=\"site2\"} 0\n"),
            "{metrics}"
        );
        assert!(
            metrics.contains("\ncheops_operations{state=\"in-doubt\"} 0\n"),
            "{metrics}"
        );
    });
}

#[test]
fn a_resource_is_adopted_verified_and_repaired() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let id = mesh.app("site1").put(order("tea"));
        let path = format!("/orders/{id}");
        let operator = mesh.at("site1");
        refused(operator.adopt(adopt(&path, &["site9"])).await, Code::UnknownSite);
        refused(operator.adopt(adopt(&path, &["site1"])).await, Code::SetRefused);
        refused(
            operator.adopt(adopt("/orders/99", &["site2"])).await,
            Code::SetRefused,
        );
        refused(
            operator.adopt(adopt("/orders", &["site2"])).await,
            Code::BadRequest,
        );

        let set = operator
            .adopt(adopt(&path, &["site1", "site2", "site2"]))
            .await
            .unwrap();
        let meta = set.set.meta_id;
        assert_eq!(set.set.local_id, Some(id.to_string()));
        mesh.until("site1", &meta, |set| set.set.state == SetState::Ok)
            .await;
        assert_eq!(mesh.app("site2").orders.borrow()[&1001], order("tea"));
        refused(operator.adopt(adopt(&path, &["site2"])).await, Code::SetRefused);

        let same = operator.verify(&meta, &ANY, false).await.unwrap();
        assert!(same.same, "{same:#?}");
        mesh.app("site2")
            .orders
            .borrow_mut()
            .insert(1001, order("coffee"));
        let drifted = operator.verify(&meta, &ANY, false).await.unwrap();
        assert!(!drifted.same);
        assert_eq!(drifted.reference, Some(name("site1")));
        let replica = &drifted.replicas[1];
        assert_eq!(replica.comparison, Comparison::Different);
        assert_eq!(replica.differences.len(), 1);
        assert_eq!(replica.differences[0].pointer, "/name");
        assert_eq!(replica.differences[0].right, Some(json!("coffee")));
        let repaired = operator.verify(&meta, &ANY, true).await.unwrap();
        assert!(repaired.same && repaired.repaired, "{repaired:#?}");
        assert_eq!(mesh.app("site2").orders.borrow()[&1001], order("tea"));
    });
}

#[test]
fn a_site_that_is_away_is_told_as_such() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        mesh.cut("site1", "site2");
        let found = mesh.at("site1").verify(&meta, &ANY, false).await.unwrap();
        assert!(!found.same);
        assert_eq!(found.replicas[0].comparison, Comparison::Reference);
        assert_eq!(found.replicas[1].comparison, Comparison::Unreachable);
        assert!(found.replicas[1].reason.is_some());
    });
}

#[test]
fn sites_come_go_and_move() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2", "site3"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        let operator = mesh.at("site1");
        refused(
            operator.add_site(&meta, &ANY, &at("site2")).await,
            Code::SetRefused,
        );
        refused(
            operator.add_site(&meta, &ANY, &at("site9")).await,
            Code::UnknownSite,
        );
        refused(
            operator.add_site("none", &ANY, &at("site3")).await,
            Code::UnknownReplicaSet,
        );
        refused(
            operator.remove_site(&meta, &ANY, &name("site3"), false).await,
            Code::SetRefused,
        );
        refused(
            operator.remove_site(&meta, &ANY, &name("site1"), true).await,
            Code::SetRefused,
        );

        let asked = Move {
            from: name("site2"),
            to: name("site3"),
            wait_s: Some(10),
            credential: Credential::default(),
        };
        operator.move_to(&meta, &ANY, &asked).await.unwrap();
        let moved = mesh
            .until("site1", &meta, |set| {
                set.set.sites == [name("site1"), name("site3")]
            })
            .await;
        assert_eq!(moved.set.state, SetState::Ok);
        assert_eq!(mesh.app("site3").orders.borrow()[&2001], order("tea"));
        assert!(mesh.app("site2").orders.borrow().is_empty());
        // Asked again it has happened.
        operator.move_to(&meta, &ANY, &asked).await.unwrap();
        refused(
            mesh.at("site2").add_site(&meta, &ANY, &at("site2")).await,
            Code::SetRefused,
        );

        operator
            .remove_site(&meta, &ANY, &name("site3"), false)
            .await
            .unwrap();
        mesh.until("site1", &meta, |set| set.set.sites == [name("site1")])
            .await;
        refused(
            operator.remove_site(&meta, &ANY, &name("site1"), false).await,
            Code::SetRefused,
        );

        let deleted = mesh.change("site1", &meta, "DELETE", &Value::Null).await;
        assert!(
            matches!(&deleted, Reply::Answered { response, .. } if response.status() == 204),
            "{deleted:?}"
        );
        refused(
            operator.add_site(&meta, &ANY, &at("site2")).await,
            Code::ResourceDeleted,
        );
    });
}

#[test]
fn both_sides_of_a_conflict_are_kept_until_an_operator_deals_with_it() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        mesh.cut("site1", "site2");
        mesh.change("site2", &meta, "PUT", &order("coffee")).await;
        mesh.change("site1", &meta, "PUT", &order("water")).await;
        mesh.heal();
        for site in ["site1", "site2"] {
            let settled = |set: &SetDetail| set.conflicts.len() == 1 && set.set.state == SetState::Ok;
            mesh.until(site, &meta, settled).await;
        }
        let operator = mesh.at("site2");
        let list = operator.conflicts(ConflictFilter::default()).await.unwrap();
        assert_eq!((list.conflicts.len(), list.next), (1, None));
        let id = &list.conflicts[0].id;
        let conflict = operator.conflict(id).await.unwrap();
        assert_eq!(conflict.conflict.cause, Cause::Overwritten);
        assert_eq!(conflict.differences.len(), 1);
        assert_eq!(conflict.differences[0].pointer, "/name");
        let lost = conflict.loser.body.json().unwrap().clone();
        hides_credentials(&conflict);

        let done = operator.reapply(id, &Credential::default()).await.unwrap();
        assert_eq!(done.status, 200);
        for site in ["site1", "site2"] {
            mesh.until(site, &meta, |set| {
                set.conflicts.is_empty() && set.set.state == SetState::Ok
            })
            .await;
            let app = mesh.app(site);
            assert_eq!(app.orders.borrow().values().next(), Some(&lost));
        }
        refused(operator.dismiss(id).await, Code::UnknownConflict);
        refused(operator.conflict("nonsense").await, Code::UnknownConflict);
    });
}

#[test]
fn what_only_a_site_removed_by_force_had_becomes_a_conflict() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        mesh.cut("site1", "site2");
        mesh.change("site2", &meta, "PUT", &order("coffee")).await;
        let operator = mesh.at("site1");
        let alone = operator
            .remove_site(&meta, &ANY, &name("site2"), true)
            .await
            .unwrap();
        assert_eq!(
            (alone.set.sites, alone.removed),
            (vec![name("site1")], vec![name("site2")])
        );
        mesh.heal();
        let out = mesh
            .until("site2", &meta, |set| set.set.state == SetState::Expelled)
            .await;
        assert_eq!(out.conflicts.len(), 1);
        assert_eq!(out.conflicts[0].cause, Cause::Expelled);
        refused(
            mesh.at("site2").add_site(&meta, &ANY, &at("site2")).await,
            Code::SetRefused,
        );

        // It comes back to the others' state, and keeps what only it had until that is dealt with.
        operator.add_site(&meta, &ANY, &at("site2")).await.unwrap();
        let back = mesh
            .until("site2", &meta, |set| set.set.state == SetState::Ok)
            .await;
        assert_eq!(back.conflicts.len(), 1);
        let after = mesh.at("site2").dismiss(&back.conflicts[0].id).await.unwrap();
        assert_eq!(after.set.unwrap().conflicts, []);
        assert_eq!(mesh.app("site2").orders.borrow()[&1001], order("tea"));
    });
}

#[test]
fn an_operation_goes_on_with_the_credential_that_it_is_given() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        *mesh.app("site2").token.borrow_mut() = Some("second".to_owned());
        mesh.change("site1", &meta, "PUT", &order("coffee")).await;
        let waits = |set: &SetDetail| {
            set.waiting
                .first()
                .is_some_and(|operation| operation.state == OperationState::NeedsCredentials)
        };
        let set = mesh.until("site2", &meta, waits).await;
        hides_credentials(&set);
        let operator = mesh.at("site2");
        let filter = OperationFilter {
            state: Some(OperationState::NeedsCredentials),
            ..OperationFilter::default()
        };
        let list = operator.operations(filter).await.unwrap();
        assert_eq!(list.operations.len(), 1);
        let id = &list.operations[0].id;
        let operation = operator.operation(id).await.unwrap();
        assert!(operation.has_credential && operation.why.is_some());
        assert_eq!(operation.sites[0].state, SiteState::NeedsCredentials);
        hides_credentials(&operation);
        let told = |set: &SetDetail| set.replicas[1].waiting == Some(OperationState::NeedsCredentials);
        let elsewhere = mesh.until("site1", &meta, told).await;
        assert_eq!(elsewhere.replicas[1].operation.as_ref(), Some(id));
        assert_eq!(elsewhere.replicas[1].state, ReplicaState::Pending);
        let elsewhere = mesh.at("site1").operation(id).await.unwrap();
        assert_eq!(elsewhere.sites[1].state, SiteState::NeedsCredentials);

        let wrong = Credential([("x-colour".to_owned(), "blue".to_owned())].into());
        refused(operator.retry(id, &wrong).await, Code::BadRequest);
        let after = operator.retry(id, &credential("Bearer second")).await.unwrap();
        hides_credentials(&after);
        mesh.until("site2", &meta, |set| set.set.state == SetState::Ok)
            .await;
        assert_eq!(mesh.app("site2").orders.borrow()[&1001], order("coffee"));
        refused(
            operator.operation(&format!("{meta}:site1.1.0.99")).await,
            Code::UnknownOperation,
        );
        refused(operator.operation("nonsense").await, Code::UnknownOperation);
    });
}

#[test]
fn what_is_in_doubt_is_settled_once() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        mesh.app("site1").fail("POST", Some(Fault::Silent));
        let target = Target::set(meta.as_str().into());
        let ship = write(target, "POST", &format!("/orders/{meta}/ship"), &Value::Null);
        let reply = mesh.write("site1", ship).await;
        assert!(matches!(reply, Reply::Failed { .. }), "{reply:?}");
        let set = mesh
            .until("site1", &meta, |set| set.set.state == SetState::InDoubt)
            .await;
        let id = &set.waiting[0].id;
        assert_eq!(set.waiting[0].state, OperationState::InDoubt);
        let operator = mesh.at("site1");
        refused(
            operator.add_site(&meta, &ANY, &at("site2")).await,
            Code::SetRefused,
        );
        refused(
            operator.remove_site(&meta, &ANY, &name("site2"), false).await,
            Code::InDoubt,
        );
        refused(operator.abandon(id).await, Code::SetRefused);
        let settle = Settle {
            executed: true,
            local_id: None,
        };
        let after = operator.settle(id, &settle).await.unwrap();
        assert_ne!(after.set.unwrap().set.state, SetState::InDoubt);
        mesh.until("site1", &meta, |set| set.set.state == SetState::Ok)
            .await;
        assert_eq!(mesh.app("site2").orders.borrow()[&1001]["shipped"], json!(1));
        assert!(operator.settle(id, &settle).await.is_err());
    });
}

#[test]
fn what_is_given_up_leaves_a_replica_that_can_be_repaired() {
    run(async {
        let mesh = Mesh::start(&["site1", "site2"]);
        let meta = mesh.order(&["site1", "site2"], &order("tea")).await;
        mesh.app("site2").fail("PUT", Some(Fault::Status(403)));
        mesh.change("site1", &meta, "PUT", &order("coffee")).await;
        let told = |set: &SetDetail| set.replicas[1].waiting == Some(OperationState::Blocked);
        let elsewhere = mesh.until("site1", &meta, told).await;
        assert_eq!(elsewhere.replicas[1].status, Some(403));
        assert_eq!(elsewhere.set.state, SetState::Degraded);
        assert!(
            elsewhere.replicas[1].said.is_some(),
            "the application's own words"
        );
        let blocked = |set: &SetDetail| {
            set.waiting
                .first()
                .is_some_and(|operation| operation.state == OperationState::Blocked)
        };
        let set = mesh.until("site2", &meta, blocked).await;
        let operation = &set.waiting[0];
        assert_eq!(operation.status, Some(403));
        let operator = mesh.at("site2");
        // It is tried again every few milliseconds, and cannot be given up meanwhile.
        let given_up = async {
            while operator.abandon(&operation.id).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(mesh::PATIENCE, given_up).await.unwrap();
        let degraded = mesh
            .until("site1", &meta, |set| set.replicas[1].waiting.is_none())
            .await;
        assert_eq!(degraded.set.state, SetState::Degraded);
        assert_eq!(degraded.replicas[1].state, ReplicaState::Degraded);
        assert_eq!(degraded.replicas[1].status, Some(403));
        // It has its outcome at all sites, and may be kept no longer.
        assert!(operator.abandon(&operation.id).await.is_err());

        mesh.app("site2").fail("PUT", None);
        let repaired = operator.verify(&meta, &ANY, true).await.unwrap();
        assert!(repaired.same, "{repaired:#?}");
        assert_eq!(mesh.app("site2").orders.borrow()[&1001], order("coffee"));
        mesh.until("site1", &meta, |set| set.set.state == SetState::Ok)
            .await;
    });
}

#[track_caller]
fn hides_credentials(answer: &impl Serialize) {
    let text = serde_json::to_string(answer).unwrap();
    assert!(!text.contains("Bearer"), "{text}");
}
