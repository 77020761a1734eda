//! One resource at several sites.

use std::{net::SocketAddr, time::Duration};

use anyhow::bail;
use cheops_types::PlanKind;
use serde_json::{Value, json};
use tokio::time::{self, Instant};

use crate::demo::{exchange::Call, tour::stage::Stage};

const BOTH: &str = "site1 & site2";
/// How long sites may take to agree after a cut.
const AGREE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Where the resource is, for the users of each of its sites.
struct Pump {
    path: String,
    id: String,
    b1: SocketAddr,
    b2: SocketAddr,
}

pub(super) async fn play(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let pump = create(stage).await?;
    ask_first(stage, &pump).await?;
    update(stage, &pump).await?;
    write_on_both_sides(stage, &pump).await?;
    look_at_the_conflict(stage, &pump).await?;
    delete(stage, &pump).await
}

fn admin(stage: &Stage<'_>, site: usize) -> String {
    stage.map.sites[site].admin.display().to_string()
}

/// What a request would do is asked with the request itself.
async fn ask_first(stage: &mut Stage<'_>, pump: &Pump) -> anyhow::Result<()> {
    stage.step(
        "Asked before it is sent",
        "No scope, and yet it would go to all replicas. Nothing of it runs.",
    );
    let call = Call::patch(pump.b2, &pump.path, r#"{"price":7}"#).header("Cheops-Explain", "plan");
    let plan = format!("replicate({})", pump.id);
    stage
        .expect(&call, |check| {
            check.status(200).member("/plan", plan.clone()).no_receipt()
        })
        .await?;
    stage
        .expect(&Call::get(pump.b2, &pump.path), |check| {
            check.status(200).member("/price", 5)
        })
        .await?;
    Ok(())
}

async fn create(stage: &mut Stage<'_>) -> anyhow::Result<Pump> {
    let (b1, b2) = (stage.map.sites[0].b(), stage.map.sites[1].b());
    stage.step(
        "One resource, a replica at each of two sites",
        "The id in the answer is a meta-id: it works at both sites, whatever each of them calls its replica.",
    );
    let made = stage
        .expect(
            &Call::post(b1, "/items", r#"{"name":"pump","price":5}"#)
                .scope(BOTH)
                .header("Prefer", "wait=10"),
            |check| {
                check
                    .status(201)
                    .member("/name", "pump")
                    .plan(PlanKind::Replicate)
                    .executed(&["site1", "site2"])
            },
        )
        .await?;
    let id = made.json()["id"].to_string();
    let pump = Pump {
        path: format!("/items/{id}"),
        id,
        b1,
        b2,
    };
    let number: Value = serde_json::from_str(&pump.id).unwrap_or_default();
    stage
        .expect(&Call::get(b2, &pump.path), |check| {
            check
                .status(200)
                .member("/name", "pump")
                .member("/id", number.clone())
        })
        .await?;
    let socket = admin(stage, 0);
    stage
        .command(
            &["replicas", "show", &pump.id, "--admin", &socket],
            "both sites with the local id of each",
            |text| text.contains("site1") && text.contains("site2"),
        )
        .await?;
    Ok(pump)
}

async fn update(stage: &mut Stage<'_>, pump: &Pump) -> anyhow::Result<()> {
    stage.step(
        "An update through the other site",
        "No scope is needed: a write to a replica reaches all of them.",
    );
    stage
        .expect(
            &Call::patch(pump.b2, &pump.path, r#"{"price":6}"#).header("Prefer", "wait=10"),
            |check| {
                check
                    .status(200)
                    .member("/price", 6)
                    .plan(PlanKind::Replicate)
                    .executed(&["site2", "site1"])
            },
        )
        .await?;
    stage
        .expect(&Call::get(pump.b1, &pump.path), |check| {
            check.status(200).member("/price", 6)
        })
        .await?;
    Ok(())
}

async fn write_on_both_sides(stage: &mut Stage<'_>, pump: &Pump) -> anyhow::Result<()> {
    stage.map.cut("site2");
    stage.event("the links of site2 are cut again");
    stage.step(
        "Writes on both sides of a cut",
        "Each site answers by itself. The receipt says that the other one does not have it yet.",
    );
    stage
        .expect(&Call::patch(pump.b1, &pump.path, r#"{"price":7}"#), |check| {
            check
                .status(200)
                .member("/price", 7)
                .executed(&["site1"])
                .pending(&["site2"])
        })
        .await?;
    stage
        .expect(&Call::patch(pump.b2, &pump.path, r#"{"price":8}"#), |check| {
            check
                .status(200)
                .member("/price", 8)
                .executed(&["site2"])
                .pending(&["site1"])
        })
        .await?;
    stage.map.heal("site2");
    stage.event("the links are healed");
    stage.step(
        "Healed: the replicas agree",
        "The later write is what both have now. The other one is not lost: it is a conflict.",
    );
    let took = agree(stage, &pump.path, "price", &json!(8)).await?;
    stage.event(&format!("they agree after {:.1} s", took.as_secs_f64()));
    for b in [pump.b1, pump.b2] {
        stage
            .expect(&Call::get(b, &pump.path), |check| {
                check.status(200).member("/price", 8)
            })
            .await?;
    }
    Ok(())
}

/// Waits until site1 and site2 both show this value in a resource.
pub(super) async fn agree(
    stage: &Stage<'_>,
    path: &str,
    member: &str,
    wanted: &Value,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    loop {
        let mut values = Vec::new();
        for site in &stage.map.sites[..2] {
            let answer = stage.prepare(&Call::get(site.b(), path)).await?;
            values.push(answer.json()[member].clone());
        }
        if values.iter().all(|value| value == wanted) {
            return Ok(start.elapsed());
        }
        if start.elapsed() > AGREE_TIMEOUT {
            bail!("site1 and site2 do not agree: {values:?}");
        }
        time::sleep(POLL_INTERVAL).await;
    }
}

async fn look_at_the_conflict(stage: &mut Stage<'_>, pump: &Pump) -> anyhow::Result<()> {
    stage.step(
        "The conflict",
        "The write that lost is kept at every site, with its body, until somebody has dealt with it.",
    );
    let socket = admin(stage, 0);
    stage
        .command(&["conflicts", "ls", "--admin", &socket], "one conflict", |text| {
            text.contains(&pump.id)
        })
        .await
}

async fn delete(stage: &mut Stage<'_>, pump: &Pump) -> anyhow::Result<()> {
    stage.step("Delete, through either site", "It is gone at both.");
    stage
        .expect(
            &Call::delete(pump.b2, &pump.path).header("Prefer", "wait=10"),
            |check| {
                check
                    .status(204)
                    .plan(PlanKind::Replicate)
                    .executed(&["site2", "site1"])
            },
        )
        .await?;
    stage
        .expect(&Call::get(pump.b1, &pump.path), |check| check.status(404))
        .await?;
    Ok(())
}
