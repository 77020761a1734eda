//! One resource about which three sites decide together.

use std::{net::SocketAddr, time::Duration};

use anyhow::bail;
use cheops_types::PlanKind;
use tokio::time::{self, Instant};

use crate::demo::{exchange::Call, tour::stage::Stage};

const STRONG: &str = "strong(site1 & site2 & site3)";
/// How long the sites may take to notice a cut, to choose another leader, or to catch up.
const AGREE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) async fn play(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let sites: Vec<_> = stage.map.sites.iter().map(crate::demo::sites::Site::b).collect();
    let path = create(stage, &sites).await?;
    write_and_read(stage, &sites, &path).await?;
    cut_the_leader_off(stage, &sites, &path).await?;
    heal(stage, &sites, &path).await
}

async fn create(stage: &mut Stage<'_>, sites: &[SocketAddr]) -> anyhow::Result<String> {
    stage.step(
        "Three sites that decide together",
        "Two of the three have to have a write before any of them executes it. There are no conflicts.",
    );
    let call = Call::post(sites[0], "/items", r#"{"name":"valve","price":1}"#)
        .scope(STRONG)
        .header("Prefer", "wait=10");
    let made = stage
        .expect(&call, |check| {
            check
                .status(201)
                .member("/name", "valve")
                .plan(PlanKind::Replicate)
        })
        .await?;
    let socket = stage.map.sites[0].admin.display().to_string();
    stage
        .command(
            &["groups", "ls", "--admin", &socket],
            "the group of the three, and who leads",
            |text| text.contains("site1 site2 site3"),
        )
        .await?;
    Ok(format!("/items/{}", made.json()["id"]))
}

async fn write_and_read(stage: &mut Stage<'_>, sites: &[SocketAddr], path: &str) -> anyhow::Result<()> {
    stage.step(
        "Written at one site, read at another",
        "A read under the same scope shows everything that was decided before it, wherever it is asked.",
    );
    stage
        .expect(&Call::patch(sites[1], path, r#"{"price":2}"#), |check| {
            check.status(200).member("/price", 2)
        })
        .await?;
    stage
        .expect(&Call::get(sites[2], path).scope(STRONG), |check| {
            check.status(200).member("/price", 2).plan(PlanKind::Latest)
        })
        .await?;
    Ok(())
}

async fn cut_the_leader_off(stage: &mut Stage<'_>, sites: &[SocketAddr], path: &str) -> anyhow::Result<()> {
    stage.map.cut("site1");
    stage.event("the links of site1 are cut");
    let strict = || {
        Call::get(sites[0], path)
            .scope(STRONG)
            .header("Prefer", "handling=strict")
    };
    until(stage, "site1 notices", strict, 503).await?;
    stage.step(
        "Cut off, a site decides nothing",
        "It has one of three. It refuses to write, and says that what it shows may be old.",
    );
    stage
        .expect(&Call::patch(sites[0], path, r#"{"price":3}"#), |check| {
            check.status(503).mentions("no_majority").executed(&[])
        })
        .await?;
    stage
        .expect(&Call::get(sites[0], path).scope(STRONG), |check| {
            check.status(200).member("/price", 2).complete(false)
        })
        .await?;
    stage.step("The others go on", "They choose another leader, by themselves.");
    let write = || Call::patch(sites[1], path, r#"{"price":4}"#);
    let took = until(stage, "site2 and site3 decide", write, 200).await?;
    stage.event(&format!("after {:.1} s", took.as_secs_f64()));
    stage
        .expect(&Call::get(sites[2], path).scope(STRONG), |check| {
            check.status(200).member("/price", 4)
        })
        .await?;
    Ok(())
}

async fn heal(stage: &mut Stage<'_>, sites: &[SocketAddr], path: &str) -> anyhow::Result<()> {
    stage.map.heal("site1");
    stage.event("the links are healed");
    let strict = || {
        Call::get(sites[0], path)
            .scope(STRONG)
            .header("Prefer", "handling=strict")
    };
    let took = until(stage, "site1 is as far as the others", strict, 200).await?;
    stage.step(
        "Healed: one history",
        "site1 has what the others have decided. Nothing of what it refused was ever executed.",
    );
    stage.event(&format!("after {:.1} s", took.as_secs_f64()));
    stage
        .expect(&Call::get(sites[0], path).scope(STRONG), |check| {
            check.status(200).member("/price", 4).complete(true)
        })
        .await?;
    Ok(())
}

/// Asks again and again until the answer has a status; how long that took.
async fn until(
    stage: &Stage<'_>,
    what: &str,
    call: impl Fn() -> Call,
    status: u16,
) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    loop {
        let answer = stage.prepare(&call()).await?;
        if answer.status.as_u16() == status {
            return Ok(begin.elapsed());
        }
        if begin.elapsed() > AGREE_TIMEOUT {
            bail!("{what}: the last answer was {}: {}", answer.status, answer.text());
        }
        time::sleep(POLL_INTERVAL).await;
    }
}
