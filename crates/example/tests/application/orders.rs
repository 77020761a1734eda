//! What A does with B's help.

use std::net::{Ipv4Addr, TcpListener};

use bytes::Bytes;
use cheops_example::{Carry, Service};
use http::Request;
use http_body_util::Full;
use serde_json::json;

use crate::support::{Instance, Running};

#[tokio::test]
async fn says_hello_with_bs_string() {
    let app = Instance::start("traceparent").await;
    let hello = app.a.get("/hello").await;
    assert_eq!(hello.text(), "A says hello, B answers: from site 2");
    assert!(
        hello.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/plain")
    );
    let request = Request::get("/hello").header("accept", "application/json");
    let hello = app.a.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!(hello.json(), json!({"a": "hello", "b": "from site 2"}));
}

#[tokio::test]
async fn an_order_knows_its_items_name() {
    let app = Instance::start("none").await;
    app.b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    app.b.ask("POST", "/items", r#"{"name":"nut"}"#).await;
    let created = app
        .a
        .ask("POST", "/orders", r#"{"item":2001,"quantity":3}"#)
        .await;
    assert_eq!(created.status, 201);
    assert_eq!(created.headers["location"], "/orders/2001");
    let order = json!({"id": 2001, "item": 2001, "quantity": 3, "name": "bolt"});
    assert_eq!(created.json(), order);
    assert_eq!(app.a.get("/orders").await.json(), json!({ "items": [order] }));

    let patched = app.a.ask("PATCH", "/orders/2001", r#"{"item":2002}"#).await;
    assert_eq!(patched.json()["name"], "nut");
    let replaced = app
        .a
        .ask("PUT", "/orders/2001", r#"{"item":2001,"quantity":1}"#)
        .await;
    assert_eq!(replaced.json()["name"], "bolt");
    assert_eq!(app.a.ask("DELETE", "/orders/2001", "").await.status, 204);
    app.a.get("/orders/2001").await.failed(404, "no 2001");
}

#[tokio::test]
async fn an_order_is_checked() {
    let app = Instance::start("none").await;
    app.b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    let order = async |body: &'static str| app.a.ask("POST", "/orders", body).await;
    order(r#"{"item":9,"quantity":1}"#)
        .await
        .failed(422, "B has no item 9");
    order(r#"{"quantity":1}"#).await.failed(422, "item");
    order(r#"{"item":"2001","quantity":1}"#).await.failed(422, "item");
    order(r#"{"item":2001,"quantity":0}"#)
        .await
        .failed(422, "quantity");
    order(r#"{"item":2001}"#).await.failed(422, "quantity");
    assert_eq!(app.a.get("/orders").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn orders_are_found_by_their_reference() {
    let app = Instance::start("none").await;
    app.b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    for reference in ["x&y", "z", "x&y"] {
        let order = json!({"item": 2001, "quantity": 1, "ref": reference});
        app.a.ask("POST", "/orders", order.to_string()).await;
    }
    let found = async |query: &str| {
        let list = app.a.get(&format!("/orders?{query}")).await.json();
        let ids = list["items"].as_array().unwrap().iter();
        (
            ids.map(|order| order["id"].as_u64().unwrap()).collect::<Vec<_>>(),
            list["next"].clone(),
        )
    };
    assert_eq!(found("ref=z").await, (vec![2002], json!(null)));
    assert_eq!(found("ref=x%26y").await.0, [2001, 2003]);
    assert_eq!(found("ref=x%26y&limit=1").await, (vec![2001], json!("2001")));
    assert_eq!(
        found("ref=x%26y&limit=1&page_token=2001").await,
        (vec![2003], json!(null))
    );
    assert!(found("ref=none").await.0.is_empty());
    assert_eq!(found("").await.0, [2001, 2002, 2003]);
    app.a
        .ask("POST", "/orders", r#"{"item":2001,"quantity":1,"ref":7}"#)
        .await
        .failed(422, "ref");
}

#[tokio::test]
async fn an_order_is_shipped_and_cancelled() {
    let app = Instance::start("none").await;
    app.b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    app.a
        .ask("POST", "/orders", r#"{"item":2001,"quantity":3}"#)
        .await;
    for shipments in 1..=3 {
        let shipped = app.a.ask("POST", "/orders/2001/ship", "").await;
        assert_eq!(
            (shipped.status.as_u16(), &shipped.json()["shipments"]),
            (200, &json!(shipments))
        );
    }
    let cancelled = app.a.ask("POST", "/orders/2001/cancel", "").await.json();
    assert_eq!(
        app.a.ask("POST", "/orders/2001/cancel", "").await.json(),
        cancelled
    );
    let order = json!({
        "id": 2001, "item": 2001, "quantity": 3, "name": "bolt", "shipments": 3, "status": "cancelled"
    });
    assert_eq!(app.a.get("/orders/2001").await.json(), order);
    for action in ["ship", "cancel"] {
        app.a
            .ask("POST", &format!("/orders/9/{action}"), "")
            .await
            .failed(404, "no 9");
    }
}

#[tokio::test]
async fn says_when_b_is_away() {
    let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let b_addr = unused.local_addr().unwrap();
    drop(unused);
    let data = tempfile::tempdir().unwrap();
    let service = Service::A {
        b_addr,
        carry: Carry::default(),
    };
    let a = Running::start(service, 1, data.path()).await;
    a.get("/hello").await.failed(502, "B cannot be reached");
}

#[tokio::test]
async fn says_what_b_answered() {
    let data = tempfile::tempdir().unwrap();
    let app = Instance::start("none").await;
    // An A in the place of a B has no `/string`.
    let service = Service::A {
        b_addr: app.a.addr,
        carry: Carry::default(),
    };
    let a = Running::start(service, 1, data.path()).await;
    a.get("/hello")
        .await
        .failed(502, "B answered 404: {\"error\":\"nothing is at /string\"}");
}
