//! One resource that spans sites.

use cheops_types::PlanKind;
use serde_json::{Value, json};

use crate::demo::{exchange::Call, tour::stage::Stage};

const SPAN: &str = "site1 % site2";

pub(super) async fn play(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    container(stage).await?;
    names(stage).await?;
    divide(stage).await
}

async fn container(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (b1, b2) = (stage.map.sites[0].b(), stage.map.sites[1].b());
    stage.step(
        "A container that spans two sites",
        "Boxes in it are each at one site, and listed as one from either.",
    );
    let made = Call::post(b1, "/rooms", r#"{"name":"foo"}"#)
        .scope(SPAN)
        .header("Prefer", "wait=10");
    stage
        .expect(&made, |check| check.status(201).executed(&["site1", "site2"]))
        .await?;
    let blue = Call::post(b2, "/rooms/foo/boxes", r#"{"name":"blue"}"#).scope("site1");
    stage
        .expect(&blue, |check| {
            check.status(201).plan(PlanKind::Cross).executed(&["site1"])
        })
        .await?;
    let yellow = Call::post(b1, "/rooms/foo/boxes", r#"{"name":"yellow"}"#).scope("site2");
    stage
        .expect(&yellow, |check| check.status(201).executed(&["site2"]))
        .await?;
    for b in [b1, b2] {
        stage
            .expect(&Call::get(b, "/rooms/foo/boxes"), |check| {
                let items: Value = json!([
                    { "name": "blue", "@site": "site1" },
                    { "name": "yellow", "@site": "site2" },
                ]);
                check.status(200).plan(PlanKind::Gather).member("/items", items)
            })
            .await?;
    }
    Ok(())
}

async fn names(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let b1 = stage.map.sites[0].b();
    stage.step(
        "A name is taken at all sites, and a change finds its owner",
        "The prime site gives names away. The refusal is the application's own.",
    );
    let again = Call::post(b1, "/rooms/foo/boxes", r#"{"name":"yellow"}"#);
    stage
        .expect(&again, |check| {
            check
                .status(409)
                .member("/error", "rooms/foo/boxes already has yellow")
        })
        .await?;
    let change = Call::patch(b1, "/rooms/foo/boxes/yellow", r#"{"full":true}"#);
    stage
        .expect(&change, |check| {
            check.status(200).member("/full", true).executed(&["site2"])
        })
        .await?;
    Ok(())
}

async fn divide(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (b1, b2) = (stage.map.sites[0].b(), stage.map.sites[1].b());
    stage.step(
        "A count that is divided",
        "Ten workers: five at each site. Whoever asks sees the whole, and a part where the scope names one site.",
    );
    let made = Call::post(b1, "/crews", r#"{"name":"packers","workers":10}"#)
        .scope(SPAN)
        .header("Prefer", "wait=10");
    stage
        .expect(&made, |check| check.status(201).member("/workers", 10))
        .await?;
    stage
        .expect(&Call::get(b1, "/crews/packers").scope("site2"), |check| {
            check.status(200).member("/workers", 5)
        })
        .await?;
    let scale = Call::patch(b2, "/crews/packers", r#"{"workers":7}"#).header("Prefer", "wait=10");
    stage
        .expect(&scale, |check| check.status(200).member("/workers", 7))
        .await?;
    let socket = stage.map.sites[0].admin.display().to_string();
    stage
        .command(
            &["cross", "ls", "--admin", &socket],
            "the room, and the crew with 4 + 3",
            |text| text.contains("room") && text.contains("7 = 4 + 3"),
        )
        .await
}
