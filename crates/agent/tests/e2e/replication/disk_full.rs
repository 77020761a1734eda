//! A full disk: writes are refused clearly, reads go on, nothing is corrupt.

use http::Method;
use serde_json::json;

use crate::harness::{Mesh, SmallDisk, get, post, until};

use super::support::{BOTH, listed, replicate_item, rows};

const DISK_BYTES: u64 = 24 * 1024 * 1024;

#[tokio::test]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let disk = match SmallDisk::mount(DISK_BYTES) {
        Ok(disk) => disk,
        Err(error) => {
            println!("skipped: a small disk cannot be mounted: {error}");
            return;
        }
    };
    let mut mesh = Mesh::of(2).data_dir(1, disk.path()).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    made.until_state(&mesh, &[1, 2], "ok").await;
    disk.fill();

    let before = rows(&mesh, 1, "B", "items").await.len();
    let mut refused = 0;
    // What is free inside the store's own file takes a few writes first.
    until("a write is refused", async || {
        let padding = "x".repeat(32 * 1024);
        let body = json!({ "name": "nut", "padding": padding }).to_string();
        let answer = post(mesh.b(1), "/items", body).scope(BOTH).await;
        if answer.status == 201 {
            return false;
        }
        answer.problem(507, "store_full");
        refused += 1;
        refused == 3
    })
    .await;
    let full = rows(&mesh, 1, "B", "items").await.len();
    assert!(full >= before);
    let answer = made
        .patch(&mesh, 1, json!({ "padding": "x".repeat(32 * 1024) }))
        .await;
    answer.problem(507, "store_full");

    // Reads go on, of replicas and of everything else; and so do writes that nobody replicates.
    made.read(&mesh, 1).await.is(200);
    get(mesh.b(1), "/items").await.is(200);
    get(mesh.b(1), "/string").await.is(200);
    post(mesh.b(1), "/items", r#"{"name":"own"}"#).await.is(201);
    assert_eq!(
        rows(&mesh, 1, "B", "items").await.len(),
        full + 1,
        "a refused write executed"
    );
    // The other site goes on alone.
    made.patch(&mesh, 2, json!({ "size": 2 })).await.is(200);

    disk.free();
    until("writes are taken again", async || {
        made.patch(&mesh, 1, json!({ "colour": "red" })).await.status == 200
    })
    .await;
    let expected = json!({ "name": "bolt", "size": 2, "colour": "red" });
    until("site1 caught up", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;

    disk.fill();
    mesh.site_mut(1).agent_mut().kill();
    disk.free();
    mesh.site_mut(1).restart().await;
    mesh.site(1).until_sees("site2", true).await;
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, expected);
    made.call(&mesh, 1, Method::PATCH, &json!({ "size": 3 }))
        .await
        .is(200);
    until("nothing is left to do", async || {
        listed(mesh.site(1), "operations", "").await.is_empty()
            && listed(mesh.site(2), "operations", "").await.is_empty()
    })
    .await;
    let items = [
        rows(&mesh, 1, "B", "items").await.len() - 1,
        rows(&mesh, 2, "B", "items").await.len(),
    ];
    assert_eq!(items[0], items[1], "the sites have not the same items");
}
