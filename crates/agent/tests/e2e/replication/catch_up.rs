//! A site that was away gets everything that it missed.

use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{Connection, Mesh, patch, until};

use super::support::{ALL, Made, listed, replicate_item, rows};

const RESOURCES: usize = 100;
const WRITES: usize = 1_000;
const WRITERS: usize = 10;

#[tokio::test]
async fn a_site_that_was_down_during_a_thousand_writes_catches_up() {
    let mut mesh = Mesh::of(3).start().await;
    let mut made = Vec::new();
    for number in 0..RESOURCES / 2 {
        made.push(replicate_item(&mesh, 1 + number % 3, &format!("item {number}"), ALL).await);
    }
    mesh.site_mut(3).agent_mut().kill();
    for site in [1, 2] {
        mesh.site(site).until_sees("site3", false).await;
    }
    // Half of the resources are made while it is away.
    for number in RESOURCES / 2..RESOURCES {
        let body = json!({ "name": format!("item {number}") }).to_string();
        let answer = crate::harness::post(mesh.b(1 + number % 2), "/items", body)
            .scope(ALL)
            .await;
        made.push(Made::by("B", "items", &answer));
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        // One writer per resource, each at one site: nothing is concurrent.
        let addr = mesh.b(1 + writer % 2);
        let paths: Vec<_> = made
            .iter()
            .skip(writer)
            .step_by(WRITERS)
            .map(Made::path)
            .collect();
        writers.spawn(async move {
            let mut connection = Connection::http1(addr).await;
            for round in 0..WRITES / RESOURCES {
                for path in &paths {
                    let body = json!({ "round": round }).to_string();
                    patch(addr, path, body).on(&mut connection).await.is(200);
                }
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }

    mesh.site_mut(3).start();
    let peers = ["site1", "site2"].map(str::to_owned);
    mesh.site_mut(3).ready(&peers).await;
    until("site3 has all resources", async || {
        rows(&mesh, 3, "B", "items").await.len() >= RESOURCES
    })
    .await;
    for (number, made) in made.iter().enumerate() {
        let expected = json!({ "name": format!("item {number}"), "round": WRITES / RESOURCES - 1 });
        until("site3 caught up", async || {
            made.replica(&mesh, 3).await.as_ref() == Some(&expected)
        })
        .await;
        assert_eq!(made.until_same(&mesh, &[1, 2, 3]).await, expected);
    }
    for site in 1..=3 {
        assert_eq!(
            rows(&mesh, site, "B", "items").await.len(),
            RESOURCES,
            "site{site}"
        );
        let conflicts = listed(mesh.site(site), "conflicts", "").await;
        assert!(conflicts.is_empty(), "site{site}: {conflicts:#?}");
    }
}
