//! Preconditions are checked once, where the request was accepted.

use http::Method;
use serde_json::json;

use crate::harness::{Call, Mesh, post};

use super::support::{BOTH, listed, replicate_item};

#[tokio::test]
async fn a_version_counts_where_it_was_read() {
    let mesh = Mesh::of(2).start().await;
    // Versions count changes, so these put site 2 ahead.
    for _ in 0..3 {
        post(mesh.b(2), "/items", r#"{"name":"stranger"}"#).await.is(201);
    }
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    let mut expected = json!({ "name": "bolt" });
    for round in 0..4 {
        let site = 1 + round % 2;
        let (here, there) = (made.read(&mesh, site).await, made.read(&mesh, 3 - site).await);
        let (here, there) = (
            here.header("etag").unwrap().to_owned(),
            there.header("etag").unwrap().to_owned(),
        );
        assert_ne!(here, there, "the versions must differ for this to show anything");

        let body = json!({ "round": round });
        let stale = made
            .call(&mesh, site, Method::PATCH, &body)
            .header("if-match", &there)
            .await;
        assert_eq!(stale.status, 412, "{stale:?}");
        assert_eq!(
            made.until_same(&mesh, &[1, 2]).await,
            expected,
            "a refused change was shipped"
        );

        let good = made
            .call(&mesh, site, Method::PATCH, &body)
            .header("if-match", &here);
        let good = good.header("prefer", "wait=20").await.is(200);
        assert_eq!(good.executed_at().len(), 2, "{good:?}");
        expected["round"] = json!(round);
        assert_eq!(made.until_same(&mesh, &[1, 2]).await, expected);

        // The version is consumed.
        let again: Call = made
            .call(&mesh, site, Method::PATCH, &body)
            .header("if-match", &here);
        assert_eq!(again.await.status, 412);
    }
    let version = made.read(&mesh, 2).await.header("etag").unwrap().to_owned();
    let delete = made
        .call(&mesh, 2, Method::DELETE, &json!(null))
        .header("if-match", &version);
    delete.header("prefer", "wait=20").await.is(204);
    made.until_state(&mesh, &[1, 2], "deleted").await;
    for site in [1, 2] {
        assert!(listed(mesh.site(site), "operations", "").await.is_empty());
        assert!(listed(mesh.site(site), "conflicts", "").await.is_empty());
    }
}
