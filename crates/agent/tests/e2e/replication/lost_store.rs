//! A site whose disk is gone begins again with what the others know.

use std::fs;

use serde_json::json;

use crate::harness::{Mesh, get, until};

use super::support::{BOTH, replicate_item, rows};

#[tokio::test]
async fn a_site_that_lost_its_store_is_brought_in_again() {
    let mut mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    made.patch(&mesh, 1, json!({ "size": 1 })).await.is(200);
    let expected = json!({ "name": "bolt", "size": 1 });
    until("the change is at both sites", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;

    let site2 = mesh.site_mut(2);
    site2.agent_mut().kill();
    let data_dir = site2.data_dir().to_owned();
    fs::remove_dir_all(&data_dir).unwrap();
    fs::create_dir(&data_dir).unwrap();
    site2.restart().await;

    // By the id that only Cheops knows, so that the set must be known again.
    until("site2 knows the resource again", async || {
        get(mesh.b(2), &made.path()).await.status == 200
    })
    .await;
    made.patch(&mesh, 2, json!({ "size": 2 })).await.is(200);
    let expected = json!({ "name": "bolt", "size": 2 });
    until("a change through it is at both sites", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;
    for site in [1, 2] {
        let count = rows(&mesh, site, "B", "items").await.len();
        assert_eq!(count, 1, "site{site} has its replica and no second one");
    }
}
