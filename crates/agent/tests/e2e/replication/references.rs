//! A meta-id works wherever the application expects an id.

use http::Method;
use serde_json::json;

use crate::harness::{Call, Mesh, get, post};

use super::support::{ALL, BOTH, Made, WAIT, mentions, replicate, replicate_item};

#[tokio::test]
async fn an_order_refers_to_a_replicated_item() {
    let mesh = Mesh::of(3).start().await;
    // Other ids at each site.
    for site in [2, 2, 3] {
        post(mesh.b(site), "/items", r#"{"name":"stranger"}"#)
            .await
            .is(201);
    }
    let item = replicate_item(&mesh, 1, "bolt", ALL).await;
    let id = item.id.parse::<u64>().unwrap();
    let order = json!({ "item": id, "quantity": 3 });
    let created = post(mesh.a(1), "/orders", order.to_string())
        .scope(ALL)
        .header("prefer", WAIT)
        .await;
    let order = Made::by("A", "orders", &created);
    assert_eq!(created.json()["item"], json!(id), "{created:?}");
    for site in 1..=3 {
        let read = order.read(&mesh, site).await.is(200);
        assert_eq!(
            (&read.json()["item"], &read.json()["name"]),
            (&json!(id), &json!("bolt"))
        );
        let local_item = item.local_id(mesh.site(site)).await.unwrap();
        assert!(!mentions(&read, &local_item), "a local id leaks: {read:?}");
        let path = order.local_path(mesh.site(site)).await;
        let row = get(mesh.application(site, "A"), &path).await.is(200).json();
        assert_eq!(row["item"].to_string(), local_item, "site{site}: {row}");
        let list = get(mesh.a(site), "/orders").await.is(200);
        assert_eq!(list.json()["items"][0]["item"], json!(id));
    }

    // Another item, by a change through another site.
    let nut = replicate_item(&mesh, 2, "nut", ALL).await;
    let body = json!({ "item": nut.id.parse::<u64>().unwrap() });
    let patched = order
        .call(&mesh, 3, Method::PATCH, &body)
        .header("prefer", WAIT)
        .await
        .is(200);
    assert_eq!(
        (&patched.json()["item"], &patched.json()["name"]),
        (&body["item"], &json!("nut"))
    );
    for site in 1..=3 {
        let path = order.local_path(mesh.site(site)).await;
        let row = get(mesh.application(site, "A"), &path).await.is(200).json();
        let local = nut.local_id(mesh.site(site)).await.unwrap();
        assert_eq!(row["item"].to_string(), local, "site{site}: {row}");
    }
}

#[tokio::test]
async fn a_local_order_may_refer_to_a_replicated_item() {
    let mesh = Mesh::of(2).start().await;
    post(mesh.b(2), "/items", r#"{"name":"stranger"}"#).await.is(201);
    let item = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let id = item.id.parse::<u64>().unwrap();
    for (site, scope, maker) in [(1, None, 1), (2, None, 2), (1, Some("site2"), 2)] {
        let body = json!({ "item": id, "quantity": 1 }).to_string();
        let mut call = post(mesh.a(site), "/orders", body);
        if let Some(scope) = scope {
            call = call.scope(scope);
        }
        let created = call.await.is(201);
        assert_eq!(created.json()["item"], json!(id), "{created:?}");
        let location = created.header("location").unwrap();
        let row = get(mesh.application(maker, "A"), location).await.is(200).json();
        let local = item.local_id(mesh.site(maker)).await.unwrap();
        assert_eq!(row["item"].to_string(), local, "{row}");
    }
}

#[tokio::test]
async fn an_order_waits_for_its_item() {
    // The item reaches site 2 only after the order was accepted at site 1.
    let mesh = Mesh::of(2).start().await;
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let item = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(BOTH).await;
    let item = Made::by("B", "items", &item);
    let body = json!({ "item": item.id.parse::<u64>().unwrap(), "quantity": 1 });
    let order = post(mesh.a(1), "/orders", body.to_string()).scope(BOTH).await;
    let order = Made::by("A", "orders", &order);
    mesh.rejoin(2);
    mesh.site(2).until_sees("site1", true).await;
    crate::harness::until("site2 knows the order", async || {
        let known = mesh.site(2).look(&format!("/v1/replicas/{}", order.set)).await;
        known.0 == 200
    })
    .await;
    let same = order.until_same(&mesh, &[1, 2]).await;
    assert_eq!(same, json!({ "quantity": 1, "name": "bolt" }));
    order.until_state(&mesh, &[1, 2], "ok").await;
}

#[tokio::test]
async fn actions_run_once_at_every_site() {
    let mesh = Mesh::of(2).start().await;
    let item = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let body = json!({ "item": item.id.parse::<u64>().unwrap(), "quantity": 9 });
    let order = replicate(&mesh, 1, ("A", "orders"), body, BOTH).await;
    let act = async |site: usize, action: &str| {
        let path = format!("{}/{action}", order.path());
        let answer = Call::new(Method::POST, mesh.a(site), &path).await.is(200);
        assert_eq!(answer.json()["id"].to_string(), order.id, "{answer:?}");
    };
    for site in [1, 2, 1] {
        act(site, "ship").await;
    }
    // Both sides of a cut ship, which commutes: nobody loses.
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    act(1, "ship").await;
    act(2, "ship").await;
    act(2, "cancel").await;
    mesh.rejoin(2);
    let expected = json!({ "quantity": 9, "name": "bolt", "shipments": 5, "status": "cancelled" });
    crate::harness::until("all actions are everywhere", async || {
        order.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;
    for site in [1, 2] {
        let conflicts = super::support::listed(mesh.site(site), "conflicts", "").await;
        assert!(conflicts.is_empty(), "{conflicts:#?}");
    }
}
