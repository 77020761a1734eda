//! A count that is divided among sites.

use http::Method;
use serde_json::{Value, json};

use super::{BOTH, call, own};
use crate::harness::{Mesh, get, post, until};

async fn crew(mesh: &Mesh, workers: u64, prefer: &str) {
    let body = json!({ "name": "packers", "workers": workers }).to_string();
    let made = post(mesh.b(1), "/crews", body)
        .scope(BOTH)
        .header("prefer", "wait=20")
        .header("prefer", prefer)
        .await
        .is(201);
    assert!(made.receipt().complete, "{made:?}");
    // Its maker sees the whole.
    assert_eq!(made.json(), json!({ "name": "packers", "workers": workers }));
}

async fn parts(mesh: &Mesh, sites: &[usize]) -> Vec<Value> {
    let mut parts = Vec::new();
    for site in sites {
        parts.push(own(mesh, *site, "/crews/packers").await.1["workers"].clone());
    }
    parts
}

async fn until_parts(mesh: &Mesh, sites: &[usize], expect: &[u64]) {
    until(&format!("parts are {expect:?}"), async || {
        parts(mesh, sites).await == expect
    })
    .await;
}

#[tokio::test]
async fn a_whole_is_divided_read_and_divided_again() {
    let mesh = Mesh::of(2).start().await;
    crew(&mesh, 10, "wait=20").await;
    assert_eq!(parts(&mesh, &[1, 2]).await, [5, 5]);
    for site in [1, 2] {
        let whole = get(mesh.b(site), "/crews/packers").await.is(200);
        assert_eq!(whole.json()["workers"], 10);
        assert!(whole.receipt().complete);
        // A part, on demand.
        let part = get(mesh.b(site), "/crews/packers").scope("site2").await.is(200);
        assert_eq!(part.json()["workers"], 5);
    }
    let scaled = call(
        &mesh,
        2,
        Method::PATCH,
        "/crews/packers",
        &json!({ "workers": 7 }),
    )
    .await
    .is(200);
    assert_eq!(scaled.json()["workers"], 7);
    until_parts(&mesh, &[1, 2], &[4, 3]).await;
    // Through a path below it, and where one part stays what it was.
    let scaled = call(
        &mesh,
        1,
        Method::POST,
        "/crews/packers/scale",
        &json!({ "workers": 8 }),
    )
    .await
    .is(200);
    assert_eq!(scaled.json()["workers"], 8);
    until_parts(&mesh, &[1, 2], &[4, 4]).await;
    // What is not divided is the same everywhere.
    let named = call(
        &mesh,
        2,
        Method::PATCH,
        "/crews/packers",
        &json!({ "boss": "ann" }),
    )
    .await
    .is(200);
    assert_eq!(
        (&named.json()["boss"], &named.json()["workers"]),
        (&json!("ann"), &json!(8))
    );
    until("the boss is known", async || {
        own(&mesh, 1, "/crews/packers").await.1["boss"] == "ann"
    })
    .await;
    assert_eq!(parts(&mesh, &[1, 2]).await, [4, 4]);
    call(
        &mesh,
        1,
        Method::PATCH,
        "/crews/packers",
        &json!({ "workers": "all" }),
    )
    .await
    .problem(415, "body_unsupported");
    call(&mesh, 2, Method::DELETE, "/crews/packers", &json!({}))
        .await
        .is(204);
    for site in [1, 2] {
        until("it is gone", async || {
            own(&mesh, site, "/crews/packers").await.0 == 404
        })
        .await;
    }
}

#[tokio::test]
async fn sums_are_of_what_the_glue_says() {
    let mesh = Mesh::of(2).start().await;
    crew(&mesh, 10, "wait=20").await;
    // Each site's application keeps its own count of who is busy.
    for (site, busy) in [(1, 2), (2, 3)] {
        let body = json!({ "busy": busy }).to_string();
        crate::harness::patch(mesh.application(site, "B"), "/crews/packers", body)
            .await
            .is(200);
    }
    let whole = get(mesh.b(2), "/crews/packers").await.is(200).json();
    assert_eq!((&whole["workers"], &whole["busy"]), (&json!(10), &json!(5)));
}

#[tokio::test]
async fn parts_follow_weights() {
    let mesh = Mesh::of(2).start().await;
    crew(&mesh, 10, r#"cheops-weights="site2:4""#).await;
    assert_eq!(parts(&mesh, &[1, 2]).await, [2, 8]);
    call(
        &mesh,
        1,
        Method::PATCH,
        "/crews/packers",
        &json!({ "workers": 5 }),
    )
    .await
    .is(200);
    until_parts(&mesh, &[1, 2], &[1, 4]).await;
}

#[tokio::test]
async fn both_sides_of_a_cut_scale_and_the_parts_add_up() {
    let mesh = Mesh::of(2).start().await;
    crew(&mesh, 10, "wait=20").await;
    mesh.isolate(2);
    for (site, workers) in [(1, 21), (2, 31)] {
        call(
            &mesh,
            site,
            Method::PATCH,
            "/crews/packers",
            &json!({ "workers": workers }),
        )
        .await
        .is(200);
    }
    // The part of the other side is missing, and the whole is still known.
    let alone = get(mesh.b(1), "/crews/packers").await.is(200);
    assert_eq!(alone.json()["workers"], 21);
    assert!(!alone.receipt().complete);
    mesh.rejoin(2);
    until("one of them has won", async || {
        let parts = parts(&mesh, &[1, 2]).await;
        parts == [11, 10] || parts == [16, 15]
    })
    .await;
}
