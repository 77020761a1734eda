//! Data beside a document: only operations carry it, so nobody may get the document alone and call it a replica.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Call, Mesh, get, post, put, until};

use super::support::{BOTH, Made, replicate, rows, text};

const DATA: [u8; 5000] = [7; 5000];

/// A file with data, at both sites.
async fn uploaded(mesh: &Mesh) -> Made {
    let made = replicate(mesh, 1, ("B", "files"), json!({ "name": "plan" }), BOTH).await;
    let upload = put(mesh.b(1), &format!("{}/data", made.path()), DATA.to_vec());
    let answer = upload.header("prefer", "wait=20").await.is(204);
    assert!(answer.receipt().complete, "{answer:?}");
    made
}

#[track_caller]
fn is_refused(answer: &Value) {
    assert_eq!(answer["code"], "set_refused", "{answer:#}");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("`parts` in the glue"), "{detail}");
}

#[tokio::test]
async fn what_would_bring_the_document_alone_is_refused() {
    let mesh = Mesh::of(3).start().await;
    let alone = post(mesh.b(1), "/files", r#"{"name":"alone"}"#)
        .await
        .is(201)
        .json();
    let path = format!("/files/{}", text(&alone["id"]));
    put(mesh.b(1), &format!("{path}/data"), DATA.to_vec())
        .await
        .is(204);
    let adopt = json!({ "service": "B", "path": path, "sites": ["site2"] });
    is_refused(&mesh.site(1).tell("/v1/replicas", &adopt).await);

    let made = uploaded(&mesh).await;
    let set = format!("/v1/replicas/{}", made.set);
    let add = json!({ "site": "site3" });
    is_refused(&mesh.site(1).tell(&format!("{set}/sites"), &add).await);
    let moved = json!({ "from": "site1", "to": "site3" });
    is_refused(&mesh.site(1).tell(&format!("{set}/move"), &moved).await);
    for site in [1, 2] {
        let download = get(mesh.b(site), &format!("{}/data", made.path())).await.is(200);
        assert_eq!(download.body, DATA.to_vec(), "site{site}");
    }
    assert!(rows(&mesh, 3, "B", "files").await.is_empty());

    // A repair is refused only where there is something to repair.
    let verify = format!("{set}/verify?repair=true");
    assert_eq!(mesh.site(1).tell(&verify, &json!({})).await["same"], true);
    gone_behind_the_agent(&mesh, &made, 2).await;
    is_refused(&mesh.site(1).tell(&verify, &json!({})).await);
}

#[tokio::test]
async fn a_replica_that_can_only_be_made_without_its_data_is_degraded() {
    let mut mesh = Mesh::of(2).start().await;
    let made = uploaded(&mesh).await;
    made.until_state(&mesh, &[1, 2], "ok").await;
    gone_behind_the_agent(&mesh, &made, 2).await;
    // Whoever has lost its store gets a state.
    mesh.site_mut(2).lose_store().await;
    until("site2 knows the set again", async || {
        mesh.site(2).look(&format!("/v1/replicas/{}", made.set)).await.0 == 200
    })
    .await;
    made.until_state(&mesh, &[1, 2], "degraded").await;
    let detail = made.detail(mesh.site(1)).await.to_string();
    assert!(detail.contains("`parts` in the glue"), "{detail}");
    assert!(rows(&mesh, 2, "B", "files").await.is_empty());
    let download = get(mesh.b(1), &format!("{}/data", made.path())).await.is(200);
    assert_eq!(download.body, DATA.to_vec());
}

async fn gone_behind_the_agent(mesh: &Mesh, made: &Made, site: usize) {
    let path = made.local_path(mesh.site(site)).await;
    let deleted = Call::new(Method::DELETE, mesh.application(site, "B"), &path).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}
