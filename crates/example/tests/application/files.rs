//! B's files: ids that may be chosen, data of any length.

use std::fs;

use serde_json::json;

use crate::support::{Instance, Running, b_service};

const ID: &str = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736";

#[tokio::test]
async fn a_file_lives() {
    const LENGTH: usize = 3 * 1024 * 1024 + 1;
    let app = Instance::start("none").await;
    let body = format!(r#"{{"name":"plan","id":"{ID}","bytes":5}}"#);
    let created = app.b.ask("POST", "/files", body.clone()).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), format!("/files/{ID}"));
    assert_eq!(created.json(), json!({"id": ID, "name": "plan"}));
    app.b.ask("POST", "/files", body).await.failed(409, ID);

    let (file, data) = (format!("/files/{ID}"), format!("/files/{ID}/data"));
    app.b.get(&data).await.failed(404, "has no data");
    let bytes: Vec<_> = (0..LENGTH).map(|n| (n % 251) as u8).collect();
    assert_eq!(app.b.ask("PUT", &data, bytes.clone()).await.status, 204);
    let downloaded = app.b.get(&data).await;
    assert_eq!(downloaded.header("content-length"), LENGTH.to_string());
    assert!(downloaded.body == bytes, "other data came back");

    assert_eq!(app.b.ask("PUT", &data, "abc").await.status, 204);
    assert_eq!(app.b.get(&data).await.text(), "abc");
    // FIPS 180-2, appendix B.1.
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let shown = app.b.get(&file).await.json();
    assert_eq!(
        shown,
        json!({"id": ID, "name": "plan", "bytes": 3, "sha256": sha256})
    );
    let replaced = app.b.ask("PUT", &file, r#"{"name":"draft"}"#).await.json();
    assert_eq!(
        replaced,
        json!({"id": ID, "name": "draft", "bytes": 3, "sha256": sha256})
    );
    let patch = r#"{"bytes":null,"sha256":"x","note":1}"#;
    let patched = app.b.ask("PATCH", &file, patch).await.json();
    assert_eq!(
        (&patched["bytes"], &patched["sha256"]),
        (&json!(3), &json!(sha256))
    );
    assert_eq!(app.b.get("/files").await.json(), json!({ "items": [patched] }));

    assert_eq!(app.b.ask("DELETE", &file, "").await.status, 204);
    app.b.get(&file).await.failed(404, ID);
    app.b.get(&data).await.failed(404, ID);
    app.b.ask("PUT", &data, "abc").await.failed(404, ID);
}

#[tokio::test]
async fn b_chooses_an_id_where_the_caller_does_not() {
    let app = Instance::start("none").await;
    let ids = [(); 2].map(|()| r#"{"name":"plan"}"#);
    let mut made = Vec::new();
    for body in ids {
        let id = app.b.ask("POST", "/files", body).await.json()["id"].clone();
        app.b
            .get(&format!("/files/{}", id.as_str().unwrap()))
            .await
            .json();
        made.push(id);
    }
    assert_ne!(made[0], made[1]);
    for body in [r#"{"name":"x","id":"7"}"#, r#"{"name":"x","id":7}"#] {
        app.b.ask("POST", "/files", body).await.failed(422, "uuid");
    }
    app.b
        .ask("POST", "/files", format!(r#"{{"id":"{ID}"}}"#))
        .await
        .failed(422, "name");
}

#[tokio::test]
async fn data_survives_a_restart_and_parts_of_it_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let b = Running::start(b_service(), 1, dir.path()).await;
    b.ask("POST", "/files", format!(r#"{{"name":"plan","id":"{ID}"}}"#))
        .await;
    let data = format!("/files/{ID}/data");
    b.ask("PUT", &data, "abc").await;
    b.stop().await;
    fs::write(dir.path().join("files/7.part"), "cut short").unwrap();

    let b = Running::start(b_service(), 1, dir.path()).await;
    assert_eq!(b.get(&data).await.text(), "abc");
    let kept: Vec<_> = fs::read_dir(dir.path().join("files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(kept, [ID]);
}
