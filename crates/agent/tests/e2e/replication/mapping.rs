//! One resource at two of three sites: who knows it, by which ids, and through whom it is changed.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Mesh, delete, get, patch, post, put, until};

use super::support::{BOTH, Made, WAIT, listed, mentions, replicate_item, rows};

/// Items that only one site has keep the replicas' local ids apart.
async fn strangers(mesh: &Mesh) {
    for (site, count) in [(1, 1), (2, 3), (3, 1)] {
        for _ in 0..count {
            post(mesh.b(site), "/items", r#"{"name":"stranger"}"#)
                .await
                .is(201);
        }
    }
}

/// The ids of a set at its sites, as one of them tells.
async fn mapping(mesh: &Mesh, made: &Made, site: usize) -> Vec<(String, Option<String>)> {
    let detail = made.detail(mesh.site(site)).await;
    let replicas = detail["replicas"].as_array().unwrap().iter();
    let mut mapping: Vec<_> = replicas
        .map(|replica| {
            let site = replica["site"].as_str().unwrap().to_owned();
            (site, replica["local_id"].as_str().map(str::to_owned))
        })
        .collect();
    mapping.sort();
    mapping
}

#[track_caller]
fn shows(answer: &Answer, made: &Made, members: &Value) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut expected = json!({ "id": made.id.parse::<u64>().unwrap() });
    expected
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    assert_eq!(answer.json(), expected, "{answer:?}");
    for local in ["1002", "2004"] {
        assert!(!mentions(answer, local), "a local id leaks: {answer:?}");
    }
}

#[tokio::test]
async fn the_involved_sites_know_the_resource_by_all_its_ids() {
    let mesh = Mesh::of(3).start().await;
    strangers(&mesh).await;
    let created = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#)
        .scope(BOTH)
        .header("prefer", WAIT)
        .await;
    let made = Made::by("B", "items", &created);
    assert_eq!(created.header("location"), Some(made.path().as_str()));
    assert_eq!(created.outcomes(), "site1=executed site2=executed");
    for local in ["1002", "2004"] {
        assert!(!mentions(&created, local), "a local id leaks: {created:?}");
    }

    // {72: [App1: 42, App2: 6]}, at the sites of the set and nowhere else.
    let expected = [
        ("site1".to_owned(), Some("1002".to_owned())),
        ("site2".to_owned(), Some("2004".to_owned())),
    ];
    for site in [1, 2] {
        assert_eq!(
            made.local_id(mesh.site(site)).await.as_deref(),
            expected[site - 1].1.as_deref()
        );
        until("both sites know both local ids", async || {
            mapping(&mesh, &made, site).await == expected
        })
        .await;
    }
    assert!(listed(mesh.site(3), "replicas", "").await.is_empty());
    assert!(listed(mesh.site(3), "operations", "").await.is_empty());
    assert_eq!(
        mesh.site(3).look(&format!("/v1/replicas/{}", made.set)).await.0,
        404
    );
    assert_eq!(rows(&mesh, 3, "B", "items").await.len(), 1);

    let bolt = json!({ "name": "bolt" });
    for (site, local) in [(1, "/items/1002"), (2, "/items/2004")] {
        for path in [made.path().as_str(), local] {
            shows(&get(mesh.b(site), path).await, &made, &bolt);
            for scope in [BOTH, "site1", "site2"] {
                let read = get(mesh.b(site), path).scope(scope).await;
                shows(&read, &made, &bolt);
            }
        }
        // A local id counts at its own site only.
        let other = if site == 1 { "/items/2004" } else { "/items/1002" };
        get(mesh.b(site), other).await.is(404);
    }
    // Outside of the set the scope leads there; without one the id means nothing.
    get(mesh.b(3), &made.path()).await.is(404);
    for scope in [BOTH, "site1", "site2"] {
        shows(&get(mesh.b(3), &made.path()).scope(scope).await, &made, &bolt);
    }
}

#[tokio::test]
async fn every_id_at_every_site_changes_all_replicas() {
    let mesh = Mesh::of(3).start().await;
    strangers(&mesh).await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let meta = made.path();
    let mut expected = json!({ "name": "bolt" });
    for (round, (site, path, scope)) in [
        (1, meta.as_str(), None),
        (1, "/items/1002", None),
        (2, meta.as_str(), None),
        (2, "/items/2004", None),
        // The change goes to all replicas, whatever the scope says.
        (1, meta.as_str(), Some("site2")),
        (1, "/items/1002", Some(BOTH)),
        (2, meta.as_str(), Some(BOTH)),
        (3, meta.as_str(), Some(BOTH)),
        (3, meta.as_str(), Some("site2")),
    ]
    .into_iter()
    .enumerate()
    {
        for method in [Method::PATCH, Method::PUT] {
            let body = if method == Method::PATCH {
                expected["round"] = json!(round);
                json!({ "round": round })
            } else {
                expected = json!({ "name": "bolt", "put": round });
                expected.clone()
            };
            let mut call = match method {
                Method::PATCH => patch(mesh.b(site), path, body.to_string()),
                _ => put(mesh.b(site), path, body.to_string()),
            };
            if let Some(scope) = scope {
                call = call.scope(scope);
            }
            let answer = call.header("prefer", WAIT).await;
            shows(&answer, &made, &expected);
            assert_eq!(made.until_same(&mesh, &[1, 2]).await, expected, "{method} {path}");
        }
    }
    assert_eq!(listed(mesh.site(1), "conflicts", "").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_delete_through_any_id_deletes_all_replicas() {
    let mesh = Mesh::of(3).start().await;
    for (site, is_local, scope) in [
        (1, false, None),
        (1, true, None),
        (2, false, None),
        (2, true, None),
        (3, false, Some(BOTH)),
        (1, false, Some(BOTH)),
    ] {
        let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
        let path = if is_local {
            made.local_path(mesh.site(site)).await
        } else {
            made.path()
        };
        let mut call = delete(mesh.b(site), &path);
        if let Some(scope) = scope {
            call = call.scope(scope);
        }
        call.await.is(204);
        until("no replica is left", async || {
            rows(&mesh, 1, "B", "items").await.is_empty() && rows(&mesh, 2, "B", "items").await.is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn a_site_outside_of_the_set_can_make_it() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 3, "bolt", BOTH).await;
    assert!(rows(&mesh, 3, "B", "items").await.is_empty());
    assert!(listed(mesh.site(3), "replicas", "").await.is_empty());
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, json!({ "name": "bolt" }));
}

#[tokio::test]
async fn what_is_not_replicated_is_left_alone() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let local = post(mesh.b(1), "/items", r#"{"name":"nut"}"#).await.is(201);
    assert_eq!(local.json(), json!({ "id": 1002, "name": "nut" }));
    get(mesh.b(1), "/items/1002").await.is(200);
    patch(mesh.b(1), "/items/1002", r#"{"size":1}"#).await.is(200);
    delete(mesh.b(1), "/items/1002").await.is(204);
    assert_eq!(rows(&mesh, 2, "B", "items").await.len(), 1);
    made.read(&mesh, 1).await.is(200);
}

#[tokio::test]
async fn replicas_are_known_after_a_restart() {
    let mut mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    for site in [1, 2] {
        mesh.site_mut(site).restart().await;
    }
    mesh.site(1).until_sees("site2", true).await;
    mesh.site(2).until_sees("site1", true).await;
    shows(
        &get(mesh.b(2), "/items/2001").await,
        &made,
        &json!({ "name": "bolt" }),
    );
    made.patch(&mesh, 2, json!({ "size": 1 })).await.is(200);
    let expected = json!({ "name": "bolt", "size": 1 });
    until("the change is at both sites", async || {
        made.until_same(&mesh, &[1, 2]).await == expected
    })
    .await;
}
