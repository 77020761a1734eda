//! Containers while a site cannot be reached.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{BOTH, call, make, names, own, room};
use crate::harness::{Mesh, get, post, until};

#[tokio::test]
async fn a_list_names_the_site_that_is_missing() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 1, "foo", "near").await.is(201);
    make(&mesh, 2, "foo", "far").await.is(201);
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let list = get(mesh.b(1), "/rooms/foo/boxes").await.is(200);
    assert_eq!(
        super::of(&list.json(), |item| item["name"].as_str().unwrap().to_owned()),
        ["near"]
    );
    let receipt = list.receipt();
    assert!(!receipt.complete);
    assert_eq!(list.outcomes(), "site1=executed site2=not-executed");
    let strict = get(mesh.b(1), "/rooms/foo/boxes")
        .header("prefer", "handling=strict")
        .await;
    strict.problem(503, "incomplete_list");
    // What is here needs nobody; what may be elsewhere is not said to be missing.
    let near = call(
        &mesh,
        1,
        Method::PATCH,
        "/rooms/foo/boxes/near",
        &json!({ "full": true }),
    )
    .await;
    assert_eq!(near.is(200).json()["full"], true);
    let far = call(
        &mesh,
        1,
        Method::PATCH,
        "/rooms/foo/boxes/far",
        &json!({ "full": true }),
    )
    .await;
    far.problem(503, "owner_unknown");
}

#[tokio::test]
async fn without_the_prime_site_nothing_new_is_made() {
    let mesh = Mesh::of(2).start().await;
    room(&mesh, "foo", BOTH).await;
    mesh.isolate(1);
    mesh.site(2).until_sees("site1", false).await;
    let refused = make(&mesh, 2, "foo", "x").await;
    let problem = refused.problem(503, "name_unreserved");
    assert!(
        problem["detail"].as_str().unwrap().contains("`site1`"),
        "{problem}"
    );
    assert_eq!(own(&mesh, 2, "/rooms/foo/boxes/x").await.0, 404);
    // The prime site itself goes on.
    make(&mesh, 1, "foo", "x").await.is(201);
    mesh.rejoin(1);
    mesh.site(2).until_sees("site1", true).await;
    make(&mesh, 2, "foo", "x").await.is(409);
}

#[tokio::test]
async fn a_container_may_accept_and_flag() {
    let mesh = Mesh::of(2).start().await;
    let body = json!({ "name": "foo" }).to_string();
    post(mesh.b(1), "/rooms", body)
        .scope(BOTH)
        .header("prefer", "wait=20, cheops-names=flag")
        .await
        .is(201);
    mesh.isolate(1);
    mesh.site(2).until_sees("site1", false).await;
    make(&mesh, 2, "foo", "x").await.is(201);
    make(&mesh, 2, "foo", "y").await.is(201);
    make(&mesh, 1, "foo", "x").await.is(201);
    mesh.rejoin(1);
    mesh.site(2).until_sees("site1", true).await;
    // Both are there, and told.
    // Names are told one after the other: the second one may be on its way when the first is flagged.
    until("both names are told and one is flagged", async || {
        let shown = mesh.site(1).ask("/v1/cross").await;
        let room = &shown["resources"][0];
        room["flagged"] == 1 && room["names"] == 2
    })
    .await;
    assert_eq!(
        names(&mesh, 1, "/rooms/foo/boxes").await,
        ["x@site1", "x@site2", "y@site2"]
    );
    // The name that nobody else wanted is the second site's now.
    make(&mesh, 1, "foo", "y").await.is(409);
}

#[tokio::test]
async fn the_next_site_takes_over_when_the_prime_site_is_removed() {
    // A successor waits for as long as a create may take.
    let quick = Mesh::of(3)
        .limit("upstream_timeout_ms", 1000)
        .limit("peer_timeout_ms", 1000);
    let mesh = quick.start().await;
    room(&mesh, "foo", "site1 % site2 % site3").await;
    make(&mesh, 2, "foo", "old").await.is(201);
    let set = mesh.site(2).ask("/v1/cross").await["resources"][0]["meta_id"]
        .as_str()
        .unwrap()
        .to_owned();
    mesh.isolate(1);
    for site in [2, 3] {
        mesh.site(site).until_sees("site1", false).await;
    }
    make(&mesh, 3, "foo", "new").await.problem(503, "name_unreserved");
    let path = format!("/v1/cross/{set}/sites/site1?force=true");
    mesh.site(2).operate(Method::DELETE, &path, &json!({})).await;
    until("site 2 gives names away", async || {
        let shown = mesh.site(3).ask(&format!("/v1/cross/{set}")).await;
        shown["prime"] == "site2"
    })
    .await;
    make(&mesh, 3, "foo", "new").await.problem(503, "name_unreserved");
    until("a name is given away", async || {
        make(&mesh, 3, "foo", "new").await.status == 201
    })
    .await;
    // Names of before are known by looking.
    make(&mesh, 3, "foo", "old").await.is(409);
}

#[tokio::test]
async fn a_prime_site_that_lost_its_store_gives_no_name_away_twice() {
    // It waits for as long as a create may take.
    let quick = Mesh::of(2)
        .limit("upstream_timeout_ms", 1000)
        .limit("peer_timeout_ms", 1000);
    let mut mesh = quick.start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 2, "foo", "old").await.is(201);
    mesh.site_mut(1).lose_store().await;
    until("site1 knows the container again", async || {
        let shown = mesh.site(1).ask("/v1/cross").await;
        shown["resources"][0]["prime"] == "site1"
    })
    .await;
    for site in [1, 2] {
        mesh.site(site)
            .until_sees(&format!("site{}", 3 - site), true)
            .await;
        make(&mesh, site, "foo", "new")
            .await
            .problem(503, "name_unreserved");
    }
    until("a name is given away", async || {
        make(&mesh, 2, "foo", "new").await.status == 201
    })
    .await;
    for name in ["old", "new"] {
        make(&mesh, 1, "foo", name).await.is(409);
    }
    assert_eq!(
        names(&mesh, 1, "/rooms/foo/boxes").await,
        ["new@site2", "old@site2"]
    );
}

/// Before heartbeats have noticed: the link swallows what is sent.
#[tokio::test]
async fn a_list_does_not_wait_longer_than_the_time_out() {
    let mesh = Mesh::of(2).limit("peer_timeout_ms", 1500).start().await;
    room(&mesh, "foo", BOTH).await;
    make(&mesh, 1, "foo", "near").await.is(201);
    make(&mesh, 2, "foo", "far").await.is(201);
    mesh.isolate(2);
    let list = get(mesh.b(1), "/rooms/foo/boxes").await.is(200);
    assert!(list.elapsed < Duration::from_secs(5), "{:?}", list.elapsed);
    assert_eq!(
        super::of(&list.json(), |item| item["name"].as_str().unwrap().to_owned()),
        ["near"]
    );
    let receipt = list.receipt();
    assert!(!receipt.complete, "{list:?}");
    let missing = receipt.sites.iter().find(|visit| *visit.site == *"site2");
    assert!(missing.is_some_and(|visit| visit.error.is_some()), "{list:?}");
}
