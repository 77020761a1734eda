//! How far a caller waits.

use std::time::Duration;

use cheops_types::Outcome;
use http::Method;
use serde_json::json;

use crate::harness::{Mesh, get, post, until};

use super::support::{ALL, BOTH, Made, replicate_item};

#[tokio::test]
async fn wait_waits_for_all_sites_and_no_longer_than_told() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    mesh.isolate(2);
    mesh.site(1).until_sees("site2", false).await;
    let body = json!({ "size": 1 });
    let answer = made
        .call(&mesh, 1, Method::PATCH, &body)
        .header("prefer", "wait=1")
        .await
        .is(200);
    assert!(
        answer.elapsed >= Duration::from_millis(950),
        "{:?}",
        answer.elapsed
    );
    assert!(answer.elapsed < Duration::from_secs(10), "{:?}", answer.elapsed);
    let receipt = answer.receipt();
    assert!(!receipt.complete, "{answer:?}");
    assert_eq!(answer.outcomes(), "site1=executed site2=pending");
    assert_eq!(receipt.held, Some(1));
    mesh.rejoin(2);
    mesh.site(1).until_sees("site2", true).await;
    let body = json!({ "size": 2 });
    let answer = made
        .call(&mesh, 1, Method::PATCH, &body)
        .header("prefer", "wait=20")
        .await
        .is(200);
    assert_eq!(answer.outcomes(), "site1=executed site2=executed");
    assert!(answer.receipt().complete);
    assert_eq!(answer.header("preference-applied"), Some("wait=20"));
    assert_eq!(made.replica(&mesh, 2).await.unwrap()["size"], 2);
}

#[tokio::test]
async fn without_a_preference_nobody_waits_for_the_others() {
    let mesh = Mesh::of(3).start().await;
    for from in 1..=3 {
        for to in (1..=3).filter(|to| *to != from) {
            mesh.link(from, to).set_delay(Duration::from_millis(400));
        }
    }
    let answer = post(mesh.b(1), "/items", r#"{"name":"bolt"}"#).scope(ALL).await;
    let made = Made::by("B", "items", &answer);
    assert!(
        answer.elapsed < Duration::from_millis(400),
        "{:?}",
        answer.elapsed
    );
    assert_eq!(answer.outcomes(), "site1=executed site2=pending site3=pending");
    assert_eq!(answer.receipt().held, Some(1));
    until("all sites have it", async || {
        let known = mesh.site(3).look(&format!("/v1/replicas/{}", made.set)).await;
        known.0 == 200 && made.replica(&mesh, 3).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn held_waits_for_a_second_disk() {
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", ALL).await;
    let write = |size: u32, prefer: &str| {
        let call = made.call(&mesh, 1, Method::PATCH, &json!({ "size": size }));
        call.header("prefer", prefer)
    };
    let answer = write(1, "cheops-held=2").await.is(200);
    assert!(answer.receipt().held >= Some(2), "{answer:?}");
    assert!(answer.receipt().complete, "{answer:?}");
    // One of two others is enough.
    mesh.isolate(3);
    mesh.site(1).until_sees("site3", false).await;
    let answer = write(2, "cheops-held=2").await.is(200);
    assert_eq!(answer.receipt().held, Some(2), "{answer:?}");
    // With nobody else there is no second disk, and the answer says so.
    mesh.isolate(1);
    mesh.site(1).until_sees("site2", false).await;
    let answer = write(3, "cheops-held=2, wait=1").await.is(200);
    assert_eq!(answer.receipt().held, Some(1), "{answer:?}");
    assert!(!answer.receipt().complete, "{answer:?}");
    mesh.rejoin(1);
    mesh.rejoin(3);
    until("everybody has everything", async || {
        made.until_same(&mesh, &[1, 2, 3]).await["size"] == 3
    })
    .await;
}

#[tokio::test]
async fn respond_async_is_answered_at_once_and_can_be_polled() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    for (call, service) in [
        (made.call(&mesh, 1, Method::PATCH, &json!({ "size": 1 })), "B"),
        (post(mesh.b(1), "/items", r#"{"name":"nut"}"#).scope(BOTH), "B"),
    ] {
        let answer = call.header("prefer", "respond-async").await;
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.header("preference-applied"), Some("respond-async"));
        let location = answer.header("location").unwrap().to_owned();
        assert!(location.starts_with("/.cheops/operations/"), "{location}");
        let visits = answer.receipt().sites;
        assert!(
            visits.iter().all(|visit| visit.outcome != Outcome::NotExecuted),
            "{answer:?}"
        );
        let addr = mesh.site(1).public(service);
        let number = get(addr, &location).await.json()["operation"].to_string();
        let place = format!("/.cheops/operations/{}", number.trim_matches('"'));
        if place != location {
            // What can be guessed says nothing.
            get(addr, &place).await.problem(404, "unknown_operation");
        }
        until("the operation is done everywhere", async || {
            let status = get(addr, &location).await.is(200).json();
            let sites = status["sites"].as_array().unwrap();
            sites.len() == 2
                && sites
                    .iter()
                    .all(|site| site["state"] == "done" || site["outcome"] == "executed")
        })
        .await;
    }
    assert_eq!(made.until_same(&mesh, &[1, 2]).await["size"], 1);
    until("both sites have the new item", async || {
        let mut counts = Vec::new();
        for site in [1, 2] {
            counts.push(super::support::rows(&mesh, site, "B", "items").await.len());
        }
        counts == [2, 2]
    })
    .await;
    let unknown = get(mesh.b(1), "/.cheops/operations/nothing").await;
    unknown.problem(404, "unknown_operation");
}
