//! `ETag` and `If-Match`, and requests that come twice.

use serde_json::json;

use crate::support::{Instance, Running, b_service};

#[tokio::test]
async fn a_change_may_name_the_version_it_is_for() {
    let app = Instance::start("none").await;
    let created = app.b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    let first = created.header("etag").to_owned();
    assert_eq!(app.b.get("/items/2001").await.header("etag"), first);
    let put = async |tag: &str| {
        let condition = ("if-match", tag);
        app.b
            .ask_with("PUT", "/items/2001", condition, r#"{"name":"nut"}"#)
            .await
    };
    let second = put(&first).await.header("etag").to_owned();
    assert_ne!(first, second);
    put(&first).await.failed(412, &second);
    put("nonsense").await.failed(412, &second);
    let third = put(&format!("{first}, {second}")).await.header("etag").to_owned();
    assert_eq!(put("*").await.status, 200);

    // An order has versions too, and every change looks at them.
    app.a
        .ask("POST", "/orders", r#"{"item":2001,"quantity":1}"#)
        .await;
    for (method, path, body) in [
        ("PUT", "/orders/2001", r#"{"item":2001,"quantity":2}"#),
        ("PATCH", "/orders/2001", r#"{"quantity":2}"#),
        ("POST", "/orders/2001/ship", ""),
        ("POST", "/orders/2001/cancel", ""),
        ("DELETE", "/orders/2001", ""),
    ] {
        let before = app.a.get("/orders/2001").await;
        let tag = before.header("etag").to_owned();
        let changed = async |tag: &str| app.a.ask_with(method, path, ("if-match", tag), body).await;
        changed("\"0\"").await.failed(412, &tag);
        assert_eq!(app.a.get("/orders/2001").await.json(), before.json());
        assert!(changed(&tag).await.status.is_success(), "{method} {path}");
    }
    app.b
        .ask_with("DELETE", "/items/2001", ("if-match", &third), "")
        .await
        .failed(412, "version");
}

#[tokio::test]
async fn a_create_that_comes_again_with_its_key_makes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let b = Running::start(b_service(), 10, data.path()).await;
    let create = async |b: &Running, key: &str, name: &str| {
        let body = json!({ "name": name }).to_string();
        b.ask_with("POST", "/items", ("idempotency-key", key), body).await
    };
    let first = create(&b, "k1", "bolt").await;
    assert_eq!(
        (first.status.as_u16(), first.header("location")),
        (201, "/items/10")
    );
    assert_eq!(create(&b, "k2", "bolt").await.json()["id"], 11);
    b.ask("PATCH", "/items/10", r#"{"size":1}"#).await;
    let again = create(&b, "k1", "bolt").await;
    assert_eq!(
        (again.status, again.json(), again.header("location")),
        (first.status, first.json(), "/items/10")
    );
    assert_eq!(again.header("etag"), first.header("etag"));
    b.stop().await;

    let b = Running::start(b_service(), 10, data.path()).await;
    assert_eq!(create(&b, "k1", "bolt").await.json(), first.json());
    assert_eq!(b.get("/items").await.json()["items"].as_array().unwrap().len(), 2);
    b.ask("DELETE", "/items/10", "").await;
    assert_eq!(
        create(&b, "k1", "bolt").await.status,
        201,
        "the first answer stays"
    );
    b.get("/items/10").await.failed(404, "no 10");
    create(&b, "", "bolt").await.failed(400, "Idempotency-Key");
    // Without a key every request is a new one.
    let ids = async || b.ask("POST", "/items", r#"{"name":"nut"}"#).await.json()["id"].clone();
    assert_eq!((ids().await, ids().await), (json!(12), json!(13)));
}
