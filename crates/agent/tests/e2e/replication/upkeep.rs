//! Differences that nobody asked about are found all the same.

use std::{fs, path::Path};

use http::Method;
use serde_json::json;

use crate::harness::{Call, Mesh, delete, get, until};

use super::support::{BOTH, WAIT, replicate_item, rows};

#[tokio::test]
async fn a_replica_that_was_changed_past_the_agents_is_found_and_mended() {
    let mesh = Mesh::of(2)
        .limit("compare_every_s", 1)
        .limit("ship_retry_max_ms", 1_000)
        .start()
        .await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let path = made.local_path(mesh.site(2)).await;
    let past = Call::new(Method::PATCH, mesh.application(2, "B"), &path);
    past.body(json!({ "name": "nut" }).to_string()).await.is(200);
    until("the replica is what it was", async || {
        made.replica(&mesh, 2).await == Some(json!({ "name": "bolt" }))
    })
    .await;
    assert!(mesh.site(1).metric("cheops_comparisons_begun_total").await > 0);
    assert_eq!(
        mesh.site(2).metric("cheops_comparisons_begun_total").await,
        0,
        "one of the two begins"
    );
}

#[tokio::test]
async fn what_was_deleted_long_ago_is_forgotten_everywhere() {
    let mesh = Mesh::of(2)
        .limit("compare_every_s", 1)
        .limit("tombstone_keep_s", 1)
        .start()
        .await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let kept = replicate_item(&mesh, 2, "nut", BOTH).await;
    delete(mesh.b(2), &made.path())
        .header("prefer", WAIT)
        .await
        .is(204);
    for site in [1, 2] {
        until("the tombstone is gone", async || {
            let (status, _) = mesh.site(site).look(&format!("/v1/replicas/{}", made.set)).await;
            status == 404
        })
        .await;
        // Counted once it is gone.
        until("it is counted", async || {
            mesh.site(site).metric("cheops_tombstones_expired_total").await > 0
        })
        .await;
        assert!(
            kept.replica(&mesh, site).await.is_some(),
            "what is not deleted stays"
        );
        assert_eq!(
            rows(&mesh, site, "B", "items").await.len(),
            1,
            "it does not come back"
        );
    }
}

#[tokio::test]
async fn a_set_that_a_site_has_silently_forgotten_is_told_to_it_again() {
    let mut mesh = Mesh::of(2).limit("ship_retry_max_ms", 1_000).start().await;
    replicate_item(&mesh, 1, "bolt", BOTH).await;
    let site2 = mesh.site_mut(2);
    site2.agent_mut().kill();
    let data_dir = site2.data_dir().to_owned();
    let copy = data_dir.with_extension("copy");
    copy_dir(&data_dir, &copy);
    site2.restart().await;
    mesh.site(1).until_sees("site2", true).await;
    let made = replicate_item(&mesh, 1, "nut", BOTH).await;

    // All of its directory is put back, so that nothing says that it is older than it was.
    let site2 = mesh.site_mut(2);
    site2.agent_mut().kill();
    fs::remove_dir_all(&data_dir).unwrap();
    copy_dir(&copy, &data_dir);
    site2.restart().await;
    until("site2 knows the resource again", async || {
        get(mesh.b(2), &made.path()).await.status == 200
    })
    .await;
    assert_eq!(rows(&mesh, 2, "B", "items").await.len(), 2, "no second replica");
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_dir(&entry.path(), &target);
        } else if kind.is_file() {
            // Sockets are made anew.
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
