//! A site whose disk is gone begins again with what the others know.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::{Mesh, get, until};

use super::support::{ALL, BOTH, replicate_item, rows, text};

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

    mesh.site_mut(2).lose_store().await;

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

#[tokio::test]
async fn a_site_that_lost_its_store_gives_no_meta_id_twice() {
    let mut mesh = Mesh::of(3).start().await;
    let mut all = Vec::new();
    for name in ["bolt", "nut", "gear"] {
        all.push(replicate_item(&mesh, 2, name, ALL).await);
    }
    mesh.site_mut(2).lose_store().await;
    for made in &all {
        until("site2 knows the set again", async || {
            mesh.site(2).look(&format!("/v1/replicas/{}", made.set)).await.0 == 200
        })
        .await;
        made.until_state(&mesh, &[1, 2, 3], "ok").await;
    }

    all.push(replicate_item(&mesh, 2, "valve", ALL).await);
    let ids: BTreeSet<_> = all.iter().map(|made| made.id.clone()).collect();
    assert_eq!(ids.len(), all.len(), "an id was given twice: {all:?}");
    for site in [1, 2, 3] {
        let list = get(mesh.b(site), "/items").await.is(200).json();
        let listed: BTreeSet<_> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| text(&item["id"]))
            .collect();
        assert_eq!(listed, ids, "site{site}: {list:#}");
    }
}

#[tokio::test]
async fn a_data_directory_put_back_from_a_copy_loses_no_later_write() {
    let mut mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let is_at_both = async |mesh: &Mesh, size: u32| {
        let expected = json!({ "name": "bolt", "size": size });
        until("the change is at both sites", async || {
            made.until_same(mesh, &[1, 2]).await == expected
        })
        .await;
    };
    made.patch(&mesh, 2, json!({ "size": 1 })).await.is(200);
    is_at_both(&mesh, 1).await;
    let copy = mesh.site_mut(2).copy_store().await;
    for size in 2..6 {
        made.patch(&mesh, 2, json!({ "size": size })).await.is(200);
    }
    is_at_both(&mesh, 5).await;

    mesh.site_mut(2).put_back(&copy).await;

    for size in 10..20 {
        made.patch(&mesh, 2, json!({ "size": size })).await.is(200);
    }
    // What it took before it learnt that it had forgotten something is there, or kept as too late, at both sites.
    let path = format!("/v1/replicas/{}", made.set);
    until("the sites agree, and every write is accounted for", async || {
        let state = made.until_same(&mesh, &[1, 2]).await;
        let details = [mesh.site(1).ask(&path).await, mesh.site(2).ask(&path).await];
        let kept = details.map(|detail| detail["conflicts"].as_array().map_or(0, Vec::len));
        let is_last = state["size"] == 19;
        kept[0] == kept[1] && (is_last || kept[0] >= 10)
    })
    .await;
    made.until_state(&mesh, &[1, 2], "ok").await;
}
