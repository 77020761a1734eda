//! B's labels: their makers name them.

use serde_json::json;

use crate::support::{Instance, Running, b_service};

#[tokio::test]
async fn a_label_lives() {
    let app = Instance::start("none").await;
    let created = app
        .b
        .ask("POST", "/labels", r#"{"colour":"red","name":"to-do_1.x"}"#)
        .await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), "/labels/to-do_1.x");
    assert_eq!(created.json(), json!({"name": "to-do_1.x", "colour": "red"}));
    assert_eq!(app.b.get("/labels/to-do_1.x").await.json(), created.json());
    app.b
        .ask("POST", "/labels", r#"{"name":"to-do_1.x"}"#)
        .await
        .failed(409, "already has to-do_1.x");
    assert_eq!(app.b.get("/labels/to-do_1.x").await.json(), created.json());

    let patched = app
        .b
        .ask("PATCH", "/labels/to-do_1.x", r#"{"size":1,"name":"other"}"#)
        .await;
    assert_eq!(
        patched.json(),
        json!({"name": "to-do_1.x", "colour": "red", "size": 1})
    );
    let replaced = app.b.ask("PUT", "/labels/to-do_1.x", r#"{"size":2}"#).await;
    assert_eq!(replaced.json(), json!({"name": "to-do_1.x", "size": 2}));
    assert_eq!(
        app.b.get("/labels").await.json(),
        json!({ "items": [replaced.json()] })
    );
    assert_eq!(app.b.ask("DELETE", "/labels/to-do_1.x", "").await.status, 204);
    app.b.get("/labels/to-do_1.x").await.failed(404, "no to-do_1.x");
    app.b
        .ask("PUT", "/labels/to-do_1.x", "{}")
        .await
        .failed(404, "no to-do_1.x");
}

#[tokio::test]
async fn names_are_checked() {
    let app = Instance::start("none").await;
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(64));
    for body in [
        "{}",
        r#"{"name":""}"#,
        r#"{"name":"a/b"}"#,
        r#"{"name":7}"#,
        &long,
    ] {
        app.b
            .ask("POST", "/labels", body.to_owned())
            .await
            .failed(422, "a name is needed, of at most 63 letters");
    }
    assert_eq!(app.b.get("/labels").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn labels_are_in_pages_and_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let b = Running::start(b_service(), 1, data.path()).await;
    for name in ["c", "a", "b"] {
        b.ask("POST", "/labels", json!({ "name": name }).to_string())
            .await;
    }
    b.stop().await;
    let b = Running::start(b_service(), 1, data.path()).await;
    let first = b.get("/labels?limit=2").await.json();
    assert_eq!(
        first,
        json!({ "items": [{"name": "a"}, {"name": "b"}], "next": "b" })
    );
    let rest = b.get("/labels?limit=2&page_token=b").await.json();
    assert_eq!(rest, json!({ "items": [{"name": "c"}] }));
}
