//! Both sides of a cut go on, and agree soon after it.

use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Mesh, until};

use super::support::{ALL, BOTH, Made, listed, replicate_item};

/// How long after the end of a cut replicas may still differ.
const AGREE_MAX: Duration = Duration::from_secs(2);

async fn cut_off(mesh: &Mesh, site: usize, others: &[usize]) {
    mesh.isolate(site);
    for other in others {
        mesh.site(site).until_sees(&format!("site{other}"), false).await;
        mesh.site(*other).until_sees(&format!("site{site}"), false).await;
    }
}

/// Ends a cut; replicas must be the same in time. How they are.
async fn agree(mesh: &Mesh, site: usize, all: &[usize], made: &[Made]) -> Vec<Value> {
    let healed = Instant::now();
    mesh.rejoin(site);
    loop {
        let mut states = Vec::new();
        let mut same = true;
        for one in made {
            let mut replicas = Vec::new();
            for site in all {
                replicas.push(one.replica(mesh, *site).await);
            }
            same &= replicas.iter().all(|replica| *replica == replicas[0]);
            states.push(replicas);
        }
        if same {
            return states
                .into_iter()
                .map(|mut state| state.swap_remove(0).unwrap_or_default())
                .collect();
        }
        assert!(healed.elapsed() < AGREE_MAX, "no agreement in time: {states:#?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn writes_on_both_sides_are_answered_and_merged() {
    let mesh = Mesh::of(3).start().await;
    let apart = replicate_item(&mesh, 1, "apart", ALL).await;
    let clash = replicate_item(&mesh, 2, "clash", ALL).await;
    cut_off(&mesh, 2, &[1, 3]).await;

    // Different members do not get into each other's way.
    apart.patch(&mesh, 1, json!({ "left": 1 })).await.is(200);
    apart.patch(&mesh, 2, json!({ "right": 2 })).await.is(200);
    // The same member: the later one wins, by the clock.
    let first = clash.patch(&mesh, 1, json!({ "size": 1 })).await.is(200);
    assert_eq!(first.outcomes(), "site1=executed site2=pending site3=pending");
    clash.patch(&mesh, 2, json!({ "size": 2 })).await.is(200);
    // Only the main side, with which nothing is concurrent.
    let third = replicate_item(&mesh, 3, "main", "site1 & site3").await;
    third.patch(&mesh, 1, json!({ "size": 3 })).await.is(200);

    let states = agree(&mesh, 2, &[1, 2, 3], &[apart.clone(), clash.clone()]).await;
    assert_eq!(
        states,
        [
            json!({ "name": "apart", "left": 1, "right": 2 }),
            json!({ "name": "clash", "size": 2 })
        ]
    );
    for number in 1..=3 {
        let site = mesh.site(number);
        until("the loser is listed", async || {
            !listed(site, "conflicts", "").await.is_empty()
        })
        .await;
        let conflicts = listed(site, "conflicts", "").await;
        assert_eq!(conflicts.len(), 1, "{}: {conflicts:#?}", site.name);
        let conflict = &conflicts[0];
        assert_eq!(
            (&conflict["set"], &conflict["origin"], &conflict["cause"]),
            (&json!(clash.set), &json!("site1"), &json!("overwritten")),
        );
        let id = conflict["id"].as_str().unwrap();
        let detail = site.ask(&format!("/v1/conflicts/{id}")).await;
        assert_eq!(
            detail["loser"]["body"],
            json!({ "form": "json", "value": { "size": 1 } })
        );
        assert_eq!(
            detail["winner"]["body"],
            json!({ "form": "json", "value": { "size": 2 } })
        );
        assert_eq!(detail["differences"][0]["pointer"], "/size");
    }
    for made in [&apart, &clash] {
        made.until_state(&mesh, &[1, 2, 3], "ok").await;
    }
}

#[tokio::test]
async fn a_later_write_that_knew_the_earlier_one_is_no_conflict() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    for round in 0..20 {
        let site = 1 + round % 2;
        let write = made.call(&mesh, site, Method::PATCH, &json!({ "round": round }));
        write.header("prefer", "wait=20").await.is(200);
    }
    assert_eq!(made.until_same(&mesh, &[1, 2]).await["round"], 19);
    for site in [1, 2] {
        assert!(listed(mesh.site(site), "conflicts", "").await.is_empty());
    }
}

#[tokio::test]
async fn a_delete_wins_over_a_concurrent_change() {
    let mesh = Mesh::of(2).start().await;
    for (deleter, writer) in [(1, 2), (2, 1)] {
        let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
        cut_off(&mesh, 2, &[1]).await;
        made.call(&mesh, deleter, Method::DELETE, &Value::Null)
            .await
            .is(204);
        made.patch(&mesh, writer, json!({ "size": 7 })).await.is(200);
        mesh.rejoin(2);
        made.until_state(&mesh, &[1, 2], "deleted").await;
        for number in [1, 2] {
            until("the replica is gone", async || {
                made.replica(&mesh, number).await.is_none()
            })
            .await;
            let query = format!("set={}", made.set);
            until("the change is a conflict", async || {
                let conflicts = listed(mesh.site(number), "conflicts", &query).await;
                conflicts.len() == 1 && conflicts[0]["method"] == "PATCH"
            })
            .await;
        }
        mesh.site(1).until_sees("site2", true).await;
        mesh.site(2).until_sees("site1", true).await;
    }
}

#[tokio::test]
async fn a_conflict_is_applied_again_or_dismissed() {
    let mesh = Mesh::of(2).start().await;
    let made = replicate_item(&mesh, 1, "bolt", BOTH).await;
    cut_off(&mesh, 2, &[1]).await;
    for (site, size) in [(1, 1), (1, 2), (2, 3)] {
        made.patch(&mesh, site, json!({ "size": size })).await.is(200);
    }
    agree(&mesh, 2, &[1, 2], std::slice::from_ref(&made)).await;
    let conflicts = async |site: usize| {
        let listed = listed(mesh.site(site), "conflicts", "").await;
        let ids = listed.iter().map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    until("both losers are listed", async || {
        conflicts(1).await.len() == 2 && conflicts(2).await.len() == 2
    })
    .await;

    let mut losers = conflicts(2).await;
    for id in &losers {
        let loser = mesh.site(2).ask(&format!("/v1/conflicts/{id}")).await;
        assert_eq!(loser["conflict"]["origin"], "site1", "{loser:#}");
    }
    losers.sort();
    let again = format!("/v1/conflicts/{}/reapply", losers[1]);
    let reapplied = mesh.site(2).operate(Method::POST, &again, &json!({})).await;
    assert_eq!(reapplied["status"], 200, "{reapplied:#}");
    until("the loser's value is everywhere", async || {
        made.until_same(&mesh, &[1, 2]).await["size"] == 2
    })
    .await;
    let dismiss = format!("/v1/conflicts/{}/dismiss", losers[0]);
    mesh.site(1).operate(Method::POST, &dismiss, &json!({})).await;
    until("no conflict is left", async || {
        conflicts(1).await.is_empty() && conflicts(2).await.is_empty()
    })
    .await;
    assert_eq!(made.until_same(&mesh, &[1, 2]).await["size"], 2);
}

#[tokio::test]
async fn any_holder_relays_to_the_others() {
    // Site 3 never reaches site 1, which accepts, and yet gets everything from site 2.
    let mesh = Mesh::of(3).start().await;
    let made = replicate_item(&mesh, 1, "bolt", ALL).await;
    for link in [mesh.link(1, 3), mesh.link(3, 1)] {
        link.cut();
    }
    mesh.site(1).until_sees("site3", false).await;
    mesh.site(3).until_sees("site1", false).await;
    made.patch(&mesh, 1, json!({ "size": 7 })).await.is(200);
    until("site3 has the change", async || {
        made.replica(&mesh, 3).await == Some(json!({ "name": "bolt", "size": 7 }))
    })
    .await;
}
