//! B's items, from creation to deletion and across a restart.

use serde_json::{Value, json};

use crate::support::{Instance, Running, b_service};

#[tokio::test]
async fn an_item_lives() {
    let app = Instance::start("none").await;
    let created = app.b.ask("POST", "/items", r#"{"name":"bolt","size":4}"#).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.headers["location"], "/items/2001");
    assert_eq!(created.text(), r#"{"id":2001,"name":"bolt","size":4}"#);
    assert_eq!(app.b.get("/items/2001").await.json(), created.json());

    let patched = app
        .b
        .ask("PATCH", "/items/2001", r#"{"size":null,"colour":"red"}"#)
        .await;
    assert_eq!(
        patched.json(),
        json!({"id": 2001, "name": "bolt", "colour": "red"})
    );
    let replaced = app.b.ask("PUT", "/items/2001", r#"{"id":7,"name":"nut"}"#).await;
    assert_eq!(replaced.json(), json!({"id": 2001, "name": "nut"}));
    assert_eq!(app.b.get("/items/2001").await.json(), replaced.json());

    let deleted = app.b.ask("DELETE", "/items/2001", "").await;
    assert_eq!((deleted.status.as_u16(), deleted.text()), (204, ""));
    app.b.get("/items/2001").await.failed(404, "no 2001");
    app.b
        .ask("DELETE", "/items/2001", "")
        .await
        .failed(404, "no 2001");
    app.b
        .ask("PUT", "/items/2001", r#"{"name":"x"}"#)
        .await
        .failed(404, "no 2001");
}

#[tokio::test]
async fn a_list_has_pages() {
    let app = Instance::start("none").await;
    assert_eq!(app.b.get("/items").await.text(), r#"{"items":[]}"#);
    for n in 0..5 {
        app.b
            .ask("POST", "/items", json!({ "name": format!("i{n}") }).to_string())
            .await;
    }
    let mut seen = Vec::new();
    let mut path = "/items?limit=2".to_owned();
    let mut pages = 0;
    loop {
        let page = app.b.get(&path).await.json();
        pages += 1;
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["id"].as_u64().unwrap()),
        );
        let Some(next) = page.get("next").and_then(Value::as_str) else {
            break;
        };
        path = format!("/items?limit=2&page_token={next}");
    }
    assert_eq!((pages, seen), (3, (2001..2006).collect()));
    app.b.get("/items?limit=0").await.failed(400, "limit");
    app.b.get("/items?limit=x").await.failed(400, "limit");
    app.b.get("/items?page_token=x").await.failed(400, "page_token");
}

#[tokio::test]
async fn items_survive_a_restart() {
    let data = tempfile::tempdir().unwrap();
    let b = Running::start(b_service(), 10, data.path()).await;
    let created = b.ask("POST", "/items", r#"{"name":"bolt"}"#).await;
    b.stop().await;
    let b = Running::start(b_service(), 10, data.path()).await;
    assert_eq!(b.get("/items/10").await.json(), created.json());
    let next = b.ask("POST", "/items", r#"{"name":"nut"}"#).await;
    assert_eq!(next.json()["id"], 11);
}
