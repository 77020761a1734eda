//! A site that refuses what the others accepted.

use cheops_types::Outcome;
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Mesh, delete, post, until};

use super::support::{BOTH, Made, listed, rows};

/// An item that only site 1 has, so that site 2 refuses orders for it.
async fn own_item(mesh: &Mesh) -> Value {
    let item = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#)
        .await
        .is(201)
        .json();
    json!({ "item": item["id"], "quantity": 1 })
}

#[tokio::test]
async fn a_create_that_one_site_refuses_is_told_and_shown() {
    let mesh = Mesh::of(2).start().await;
    let order = own_item(&mesh).await.to_string();
    let created = post(mesh.a(1), "/orders", order.clone())
        .scope(BOTH)
        .header("prefer", "wait=20")
        .await;
    let made = Made::by("A", "orders", &created);
    let receipt = created.receipt();
    assert!(!receipt.complete, "{created:?}");
    let refused = receipt
        .sites
        .iter()
        .find(|visit| visit.site.as_str() == "site2")
        .unwrap();
    assert_eq!(
        (refused.outcome, refused.status),
        (Outcome::Executed, Some(422)),
        "{created:?}"
    );
    for site in [1, 2] {
        made.until_state(&mesh, &[site], "degraded").await;
        let detail = made.detail(mesh.site(site)).await;
        let replicas = detail["replicas"].as_array().unwrap();
        let there = replicas
            .iter()
            .find(|replica| replica["site"] == "site2")
            .unwrap();
        assert_eq!(there["state"], "degraded", "{detail:#}");
        assert_eq!(there["status"], 422, "{detail:#}");
    }
    assert!(rows(&mesh, 2, "A", "orders").await.is_empty());
    // The others go on.
    made.patch(&mesh, 1, json!({ "quantity": 2 })).await.is(200);
    made.read(&mesh, 1).await.is(200);

    // Nobody waits unless asked to.
    let quick = post(mesh.a(1), "/orders", order).scope(BOTH).await;
    Made::by("A", "orders", &quick);
}

#[tokio::test]
async fn a_strict_create_that_one_site_refuses_is_undone() {
    let mesh = Mesh::of(2).start().await;
    let order = own_item(&mesh).await.to_string();
    let refused = post(mesh.a(1), "/orders", order)
        .scope(BOTH)
        .header("prefer", "wait=20, handling=strict")
        .await;
    let problem = refused.problem(409, "replica_refused");
    assert_eq!(problem["site"], "site2", "{problem:#}");
    for site in [1, 2] {
        until("nothing is left of it", async || {
            rows(&mesh, site, "A", "orders").await.is_empty()
        })
        .await;
        assert!(listed(mesh.site(site), "operations", "").await.is_empty());
    }
}

#[tokio::test]
async fn a_refused_create_is_made_up_for_when_asked() {
    let mesh = Mesh::of(2).start().await;
    post(mesh.b(2), "/labels", r#"{"name":"x"}"#).await.is(201);
    let created = post(mesh.b(1), "/labels", r#"{"name":"x","colour":"red"}"#)
        .scope(BOTH)
        .header("prefer", "wait=20")
        .await;
    let made = Made::by("B", "labels", &created);
    made.until_state(&mesh, &[2], "degraded").await;
    // What was in the way goes, past the agent.
    delete(mesh.application(2, "B"), "/labels/x").await.is(204);
    let repair = format!("/v1/replicas/{}/verify?repair=true", made.set);
    mesh.site(1).operate(Method::POST, &repair, &json!({})).await;
    let same = made.until_same(&mesh, &[1, 2]).await;
    assert_eq!(same, json!({ "name": "x", "colour": "red" }));
    made.until_state(&mesh, &[1, 2], "ok").await;
}

#[tokio::test]
async fn a_write_that_its_own_site_refuses_leaves_nothing() {
    let mesh = Mesh::of(2).start().await;
    for body in ["{}", "[1]", "{"] {
        let refused = post(mesh.b(1), "/items", body).scope(BOTH).await;
        assert!(matches!(refused.status, 400 | 415 | 422), "{refused:?}");
    }
    for site in [1, 2] {
        assert!(rows(&mesh, site, "B", "items").await.is_empty());
        assert!(listed(mesh.site(site), "replicas", "").await.is_empty());
        assert!(listed(mesh.site(site), "operations", "").await.is_empty());
    }
    let made = super::support::replicate_item(&mesh, 1, "bolt", BOTH).await;
    let refused = made.patch(&mesh, 2, json!({ "name": "" })).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.executed_at(), ["site2"]);
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, json!({ "name": "bolt" }));
}
