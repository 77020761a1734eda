//! Requests that mean nothing, or not what their author thinks.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Call, Mesh, get, post, put, until};

use super::support::{BOTH, Made, WAIT, listed, replicate, replicate_item, rows};

#[tokio::test]
async fn an_unknown_meta_id() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let unknown = format!("/items/{}", made.id.parse::<u64>().unwrap() + 1_000);
    for site in 1..=3 {
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            let call = Call::new(method.clone(), mesh.b(site), &unknown).body(r#"{"name":"x"}"#);
            let answer = call.scope(BOTH).await;
            let problem = answer.problem(404, "unknown_replica_set");
            assert!(
                problem["detail"].as_str().unwrap().contains("adopt"),
                "{problem:#}"
            );
        }
        get(mesh.b(site), &unknown).scope(BOTH).await.is(404);
        // Without a scope it is a resource of this site that is not there, as ever.
        let plain = put(mesh.b(site), &unknown, r#"{"name":"x"}"#).await.is(404);
        assert!(plain.json()["error"].as_str().unwrap().contains("items has no"));
    }
    assert_eq!(listed(mesh.site(1), "replicas", "").await.len(), 1);
}

#[tokio::test]
async fn a_resource_that_was_deleted() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let label = replicate(&mesh, 1, ("B", "labels"), json!({ "name": "x" }), BOTH).await;
    for made in [&made, &label] {
        let delete = made.call(&mesh, 2, Method::DELETE, &Value::Null);
        delete.header("prefer", WAIT).await.is(204);
    }
    let body = json!({ "name": "x" });
    for site in [1, 2] {
        for method in [Method::PUT, Method::PATCH] {
            let answer = made.call(&mesh, site, method, &body).await;
            answer.problem(410, "resource_deleted");
        }
        let read = made.read(&mesh, site).await;
        assert!(matches!(read.status, 404 | 410), "{read:?}");
        let read = label.read(&mesh, site).await;
        assert!(matches!(read.status, 404 | 410), "{read:?}");
    }
    let outside = made.call(&mesh, 3, Method::PUT, &body).scope(BOTH).await;
    outside.problem(410, "resource_deleted");
    for site in [1, 2] {
        assert!(rows(&mesh, site, "B", "items").await.is_empty());
    }
}

#[tokio::test]
async fn a_set_of_one_site_is_no_set() {
    let mesh = Mesh::of(2).start().await;
    let created = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#)
        .scope("site2")
        .await;
    assert_eq!(created.is(201).executed_at(), ["site2"]);
    for scope in ["site1 & site1", "site1 & site2 & site1"] {
        let answer = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(scope).await;
        let problem = answer.problem(400, "scope_meaning");
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("`site1` stands twice"),
            "{problem:#}"
        );
    }
    for site in [1, 2] {
        assert_eq!(rows(&mesh, site, "B", "items").await.len(), site - 1);
        assert!(listed(mesh.site(site), "replicas", "").await.is_empty());
    }
}

#[tokio::test]
async fn a_site_that_nobody_knows() {
    let mesh = Mesh::of(2).start().await;
    let answer = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#)
        .scope("site1 & site9")
        .await;
    assert_eq!(answer.json()["code"], "unknown_site", "{answer:?}");
    assert!(rows(&mesh, 1, "B", "items").await.is_empty());
}

#[tokio::test]
async fn a_body_that_must_be_read_and_cannot_be() {
    let mesh = Mesh::of(2).start().await;
    replicate_item(&mesh, 1, "bolt", BOTH).await;
    for (name, value) in [
        ("content-encoding", "gzip"),
        ("content-type", "application/protobuf"),
    ] {
        let answer = post(mesh.a(1), "/orders", vec![0x1f, 0x8b, 8, 0])
            .scope(BOTH)
            .header(name, value)
            .await;
        answer.problem(415, "body_unsupported");
    }
    assert!(rows(&mesh, 1, "A", "orders").await.is_empty());
}

#[tokio::test]
async fn a_set_without_any_site_that_answers() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    mesh.isolate(3);
    mesh.site(3).until_sees("site1", false).await;
    mesh.site(3).until_sees("site2", false).await;
    let answer = made
        .call(&mesh, 3, Method::PATCH, &json!({ "size": 1 }))
        .scope(BOTH)
        .await;
    assert!(matches!(answer.status, 502..=504), "{answer:?}");
    let created = post(mesh.b(3), "/items", r#"{"name":"nut"}"#).scope(BOTH).await;
    assert!(matches!(created.status, 502..=504), "{created:?}");
    for site in [1, 2] {
        assert_eq!(rows(&mesh, site, "B", "items").await.len(), 1);
    }
    mesh.rejoin(3);
    until("site3 reaches the set again", async || {
        let answer = made
            .call(&mesh, 3, Method::PATCH, &json!({ "size": 1 }))
            .scope(BOTH)
            .await;
        answer.status == 200
    })
    .await;
    assert_eq!(made.until_same(&mesh, &[1, 2]).await["size"], 1);
}

#[tokio::test]
async fn a_site_whose_application_is_away_lets_another_take_over() {
    let nobody = crate::harness::Port::reserve();
    let mesh = Mesh::of(2).upstream(1, "B", nobody.addr()).start().await;
    let created = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(BOTH).await;
    let made = Made::by("B", "items", &created);
    assert_eq!(created.executed_at(), ["site2"], "{created:?}");
    assert_eq!(made.replica(&mesh, 2).await, Some(json!({ "name": "bolt" })));
    until("site1 knows the set", async || {
        mesh.site(1).look(&format!("/v1/replicas/{}", made.set)).await.0 == 200
    })
    .await;
    let patched = made.patch(&mesh, 1, json!({ "size": 1 })).await.is(200);
    assert_eq!(patched.executed_at(), ["site2"], "{patched:?}");
}
