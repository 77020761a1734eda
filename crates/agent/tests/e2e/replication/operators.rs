//! What operators do with replica sets: adopt, extend, move, shrink, verify, repair.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Mesh, get, patch, post, until};

use super::support::{BOTH, Made, listed, replicate_item, rows};

async fn adopted(mesh: &Mesh) -> Made {
    post(mesh.b(2), "/items", r#"{"name":"stranger"}"#).await.is(201);
    post(mesh.b(1), "/items", r#"{"name":"bolt","size":4}"#)
        .await
        .is(201);
    let request = json!({ "service": "B", "path": "/items/1001", "sites": ["site2"] });
    let set = mesh.site(1).operate(Method::POST, "/v1/replicas", &request).await;
    Made {
        service: "B",
        collection: "items",
        id: set["set"]["id"].as_str().unwrap().to_owned(),
        set: set["set"]["meta_id"].as_str().unwrap().to_owned(),
    }
}

async fn known(mesh: &Mesh, made: &Made, site: usize) {
    until("the site knows the set", async || {
        mesh.site(site)
            .look(&format!("/v1/replicas/{}", made.set))
            .await
            .0
            == 200
    })
    .await;
}

#[tokio::test]
async fn a_resource_of_one_site_is_adopted_extended_and_moved() {
    let mesh = Mesh::of(3).start().await;
    let made = adopted(&mesh).await;
    known(&mesh, &made, 2).await;
    let same = made.until_same(&mesh, &[1, 2]).await;
    assert_eq!(same, json!({ "name": "bolt", "size": 4 }));
    assert_eq!(made.local_id(mesh.site(1)).await.as_deref(), Some("1001"));
    // Its old id and its new one, at both sites.
    assert_eq!(
        get(mesh.b(1), "/items/1001").await.is(200).json()["id"].to_string(),
        made.id
    );
    made.read(&mesh, 2).await.is(200);
    made.patch(&mesh, 2, json!({ "size": 5 })).await.is(200);
    until("the change is everywhere", async || {
        made.until_same(&mesh, &[1, 2]).await["size"] == 5
    })
    .await;

    let sites = format!("/v1/replicas/{}/sites", made.set);
    mesh.site(1)
        .operate(Method::POST, &sites, &json!({ "site": "site3" }))
        .await;
    known(&mesh, &made, 3).await;
    assert_eq!(
        made.until_same(&mesh, &[1, 2, 3]).await,
        json!({ "name": "bolt", "size": 5 })
    );
    mesh.site(1)
        .operate(Method::DELETE, &format!("{sites}/site3"), &json!({}))
        .await;
    until("site3's replica is gone", async || {
        rows(&mesh, 3, "B", "items").await.is_empty()
    })
    .await;
    made.patch(&mesh, 1, json!({ "size": 6 })).await.is(200);
    until("the others go on", async || {
        made.until_same(&mesh, &[1, 2]).await["size"] == 6
    })
    .await;

    let path = format!("/v1/replicas/{}/move", made.set);
    let request = json!({ "from": "site1", "to": "site3" });
    mesh.site(1).operate(Method::POST, &path, &request).await;
    until("site1's replica is gone", async || {
        rows(&mesh, 1, "B", "items").await.is_empty()
    })
    .await;
    assert_eq!(
        made.until_same(&mesh, &[2, 3]).await,
        json!({ "name": "bolt", "size": 6 })
    );
    made.patch(&mesh, 3, json!({ "size": 7 })).await.is(200);
    until("the moved replica is followed", async || {
        made.until_same(&mesh, &[2, 3]).await["size"] == 7
    })
    .await;
}

#[tokio::test]
async fn drift_is_found_and_repaired() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let verify = async |repair: bool| {
        let path = format!("/v1/replicas/{}/verify?repair={repair}", made.set);
        mesh.site(1).operate(Method::POST, &path, &json!({})).await
    };
    assert_eq!(verify(false).await["same"], true);
    // Somebody changes a replica past the agent.
    let path = made.local_path(mesh.site(2)).await;
    patch(mesh.application(2, "B"), &path, r#"{"size":9}"#)
        .await
        .is(200);
    let report = verify(false).await;
    assert_eq!(report["same"], false, "{report:#}");
    let replicas = report["replicas"].as_array().unwrap();
    let there = replicas
        .iter()
        .find(|replica| replica["site"] == "site2")
        .unwrap();
    assert_eq!(there["comparison"], "different", "{report:#}");
    assert_eq!(there["differences"][0]["pointer"], "/size", "{report:#}");
    assert_eq!(there["differences"][0]["right"], 9, "{report:#}");

    let report = verify(true).await;
    assert_eq!(
        (&report["same"], &report["repaired"]),
        (&json!(true), &json!(true)),
        "{report:#}"
    );
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, json!({ "name": "bolt" }));
}

#[tokio::test]
async fn a_lost_site_is_removed_by_force_and_what_only_it_had_is_a_conflict() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", super::support::ALL).await;
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
    mesh.isolate(3);
    mesh.site(1).until_sees("site3", false).await;
    made.patch(&mesh, 3, json!({ "only": "site3" })).await.is(200);
    let path = format!("/v1/replicas/{}/sites/site3?force=true", made.set);
    mesh.site(1).operate(Method::DELETE, &path, &json!({})).await;
    made.patch(&mesh, 2, json!({ "size": 1 })).await.is(200);
    let expected = json!({ "name": "bolt", "size": 1 });
    until("the others go on", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;
    mesh.rejoin(3);
    made.until_state(&mesh, &[3], "expelled").await;
    until("what only site3 had is a conflict", async || {
        let conflicts = listed(mesh.site(3), "conflicts", "").await;
        conflicts.len() == 1 && conflicts[0]["cause"] == "expelled"
    })
    .await;
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, expected);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_a_reason() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let site = mesh.site(1);
    let sites = format!("/v1/replicas/{}/sites", made.set);
    for (path, body, code) in [
        (sites.as_str(), json!({ "site": "site9" }), "unknown_site"),
        (sites.as_str(), json!({ "site": "site2" }), "set_refused"),
        (
            "/v1/replicas/nothing/sites",
            json!({ "site": "site2" }),
            "unknown_replica_set",
        ),
        ("/v1/replicas/nothing/verify", json!({}), "unknown_replica_set"),
        ("/v1/operations/nothing/retry", json!({}), "unknown_operation"),
        ("/v1/conflicts/nothing/reapply", json!({}), "unknown_conflict"),
        (
            "/v1/replicas",
            json!({ "service": "B", "path": "/items/1001", "sites": ["site2"] }),
            "set_refused",
        ),
    ] {
        let answer: Value = site.tell(path, &body).await;
        assert_eq!(answer["code"], code, "{path}: {answer:#}");
        assert!(
            answer["detail"].as_str().is_some_and(|detail| !detail.is_empty()),
            "{answer:#}"
        );
    }
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, json!({ "name": "bolt" }));
}
