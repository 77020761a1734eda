//! The steps, in the order in which they are played.

mod decide;
mod names;
mod replicate;
mod span;

use std::net::SocketAddr;

use cheops_types::{Code, PlanKind};
use serde_json::{Value, json};

use crate::demo::{
    exchange::Call,
    tour::{check, stage::Stage},
};

/// The items that gathering shows, made by the tour: site and name.
const ITEMS: [(&str, &str); 6] = [
    ("site1", "bolt"),
    ("site1", "nut"),
    ("site2", "gear"),
    ("site2", "spring"),
    ("site3", "wheel"),
    ("site3", "axle"),
];
const ALL_THREE: &str = "site1 & site2 & site3";

pub(super) async fn play(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    share(stage).await?;
    choose(stage).await?;
    gather(stage).await?;
    survive_a_cut(stage).await?;
    lose_an_answer(stage).await?;
    replicate::play(stage).await?;
    names::play(stage).await?;
    decide::play(stage).await?;
    span::play(stage).await?;
    mistakes(stage).await
}

/// A's and B's addresses for the users of site1, where every step begins.
fn at_site1(stage: &Stage<'_>) -> (SocketAddr, SocketAddr) {
    let site = &stage.map.sites[0];
    (site.a(), site.b())
}

async fn share(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (a, b) = at_site1(stage);
    stage.step(
        "Without a scope",
        "A at site1 answers, and for that calls B, at site1 too. Nothing is added, nothing is told.",
    );
    stage
        .expect(&Call::get(a, "/hello"), |check| {
            check
                .status(200)
                .text("A says hello, B answers: from site 1")
                .no_receipt()
        })
        .await?;

    stage.step(
        "Sharing: one service of another site",
        "The scope follows the workflow: A runs here, its call to B goes to site2. A does not know.",
    );
    stage
        .expect(&Call::get(a, "/hello").scope("B: site2"), |check| {
            check
                .status(200)
                .text("A says hello, B answers: from site 2")
                .plan(PlanKind::Local)
                .executed(&["site1"])
                .workflow(&["B@site2"])
        })
        .await?;

    stage.step(
        "Forward: the service that is addressed",
        "A bare location is about the service that the request goes to.",
    );
    stage
        .expect(&Call::get(b, "/string").scope("site2"), |check| {
            check
                .status(200)
                .text("from site 2")
                .plan(PlanKind::Forward)
                .executed(&["site2"])
        })
        .await?;
    stage
        .expect(&Call::get(a, "/hello").scope("A: site3"), |check| {
            check
                .status(200)
                .text("A says hello, B answers: from site 3")
                .plan(PlanKind::Forward)
                .executed(&["site3"])
        })
        .await?;

    stage.step(
        "A workflow over three sites",
        "Asked at site1, A runs at site2, and B answers from site3.",
    );
    stage
        .expect(&Call::get(a, "/hello").scope("A: site2, B: site3"), |check| {
            check
                .status(200)
                .text("A says hello, B answers: from site 3")
                .plan(PlanKind::Forward)
                .executed(&["site2"])
                .workflow(&["B@site3"])
        })
        .await?;

    stage.step(
        "An order here for an item there",
        "An item is made at site2. Site1's B does not have it; with a scope, site1's A orders it.",
    );
    let made = stage
        .expect(
            &Call::post(b, "/items", r#"{"name":"lamp"}"#).scope("site2"),
            |check| check.status(201).member("/name", "lamp").executed(&["site2"]),
        )
        .await?;
    let item = made.json()["id"].clone();
    let order = json!({ "item": item, "quantity": 3 }).to_string();
    stage
        .expect(&Call::post(a, "/orders", &order), |check| {
            check.status(422).no_receipt()
        })
        .await?;
    stage
        .expect(&Call::post(a, "/orders", &order).scope("B: site2"), |check| {
            check
                .status(201)
                .member("/name", "lamp")
                .executed(&["site1"])
                .workflow(&["B@site2"])
        })
        .await?;
    let lamp = Call::delete(b, &format!("/items/{item}")).scope("site2");
    stage.prepare(&lamp).await?;
    Ok(())
}

async fn choose(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (_, b) = at_site1(stage);
    let measured = stage.map.measured().await?;
    let measured = measured
        .iter()
        .map(|(site, round_trip)| format!("{site} in {} ms", round_trip.as_millis()));
    let measured = measured.collect::<Vec<_>>().join(", ");
    stage.event(&format!("site1's heartbeats come back from {measured}"));
    stage.step("First available", "Either will do, so the nearer one is asked.");
    stage
        .expect(&Call::get(b, "/string").scope("site3 | site2"), |check| {
            check
                .status(200)
                .text("from site 2")
                .plan(PlanKind::FirstOf)
                .executed(&["site2"])
        })
        .await?;

    stage.step(
        "Around a place",
        "site2, and if it does not answer, whoever is within a second of it, nearest first.",
    );
    stage
        .expect(&Call::get(b, "/string").scope("around(site2, 1s)"), |check| {
            check.status(200).text("from site 2").executed(&["site2"])
        })
        .await?;

    stage.step("Anywhere but here", "Every site but site1, nearest first.");
    stage
        .expect(&Call::get(b, "/string").scope("!site1"), |check| {
            check.status(200).text("from site 2").executed(&["site2"])
        })
        .await?;
    Ok(())
}

async fn gather(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (_, b) = at_site1(stage);
    for (site, name) in ITEMS {
        let item = json!({ "name": name }).to_string();
        stage.prepare(&Call::post(b, "/items", &item).scope(site)).await?;
    }

    stage.step(
        "One list of three sites",
        "Each site made two items. They come as one list, each with the site that it is from.",
    );
    stage
        .expect(&Call::get(b, "/items").scope(ALL_THREE), |check| {
            check
                .status(200)
                .items(&ITEMS)
                .plan(PlanKind::Gather)
                .complete(true)
                .executed(&["site1", "site2", "site3"])
        })
        .await?;

    stage.step(
        "The same list in pages",
        "Page by page with the application's own paging; the token knows where to go on.",
    );
    let mut seen = Vec::new();
    let mut path = "/items?limit=2".to_owned();
    for _ in 0..=ITEMS.len() {
        let call = Call::get(b, &path).scope(ALL_THREE);
        let answer = stage
            .expect(&call, |check| check.status(200).complete(true))
            .await?;
        let page = answer.json();
        seen.extend(check::items(&page));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/items?limit=2&page_token={next}");
    }
    let whole = seen.iter().map(|(site, name)| (site.as_str(), name.as_str()));
    stage.require(
        whole.eq(ITEMS),
        &format!("every item once and in order, saw {seen:?}"),
    );
    Ok(())
}

async fn survive_a_cut(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (_, b) = at_site1(stage);
    stage.map.cut("site2");
    stage.event("the links of site2 are cut: they swallow everything");

    stage.step(
        "Otherwise",
        "site2 does not answer. After a while the agent asks site3, and the receipt tells both.",
    );
    let otherwise = Call::get(b, "/string").scope("site2 ; site3");
    stage
        .expect(&otherwise, |check| {
            check
                .status(200)
                .text("from site 3")
                .plan(PlanKind::Fallback)
                .executed(&["site3"])
                .missing(&["site2"])
        })
        .await?;

    stage.map.noticed("site2", false).await?;
    stage.event("site1 noticed by its heartbeats that site2 is gone");
    stage.step(
        "First available, again",
        "The same scope as before, and the agent knows better now: site3 answers, at once.",
    );
    stage
        .expect(&Call::get(b, "/string").scope("site3 | site2"), |check| {
            check.status(200).text("from site 3").plan(PlanKind::FirstOf)
        })
        .await?;

    stage.step(
        "Nobody else would do",
        "Only site2 is named. The answer says which site cannot be reached, in bounded time.",
    );
    stage
        .expect(&Call::get(b, "/string").scope("site2"), |check| {
            check
                .status_among(&[502, 504])
                .member("/site", "site2")
                .executed(&[])
                .missing(&["site2"])
        })
        .await?;

    stage.step(
        "A list with a hole",
        "What can be reached is shown. The receipt says that a part is missing, and whose.",
    );
    let list = Call::get(b, "/items").scope(ALL_THREE);
    let reachable: Vec<_> = ITEMS.into_iter().filter(|(site, _)| *site != "site2").collect();
    stage
        .expect(&list, |check| {
            check
                .status(200)
                .items(&reachable)
                .plan(PlanKind::Gather)
                .complete(false)
                .executed(&["site1", "site3"])
                .missing(&["site2"])
        })
        .await?;
    stage
        .expect(&list.header("Prefer", "handling=strict"), |check| {
            check
                .status(503)
                .member("/code", Code::IncompleteList.as_str())
                .missing(&["site2"])
        })
        .await?;

    stage.map.heal("site2");
    stage.map.noticed("site2", true).await?;
    stage.event("the links are healed, and site1 noticed");
    stage.step(
        "Healed",
        "The same command as before the cut was noticed: site2 answers.",
    );
    stage
        .expect(&otherwise, |check| {
            check.status(200).text("from site 2").executed(&["site2"])
        })
        .await?;
    Ok(())
}

async fn lose_an_answer(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (_, b) = at_site1(stage);
    let at_site3 = Call::get(b, "/items").scope("site3");
    let before = stage.prepare(&at_site3).await?.json();
    stage.map.cut("site2");
    stage.event("the links of site2 are cut once more, and nobody noticed yet");
    stage.step(
        "A write whose answer is lost",
        "The request left for site2 and may have been executed. It is not tried again at site3.",
    );
    let item = Call::post(b, "/items", r#"{"name":"once"}"#).scope("site2 ; site3");
    stage
        .expect(&item, |check| {
            check
                .status(504)
                .member("/code", Code::UnknownOutcome.as_str())
                .executed(&[])
                .unknown(&["site2"])
        })
        .await?;
    let after = stage.prepare(&at_site3).await?.json();
    let untouched = before.is_object() && before == after;
    stage.require(
        untouched,
        &format!("site3's items as before, {before}, saw {after}"),
    );
    stage.map.heal("site2");
    stage.map.noticed("site2", true).await?;
    stage.event("the links are healed: what was under way arrives after all");
    stage
        .expect(&Call::get(b, "/items").scope("site2"), |check| {
            let items = check::items(&check.body());
            let times = items.iter().filter(|(_, name)| name == "once").count();
            check.status(200).that(
                times <= 1,
                &format!("the item once or not at all, saw it {times} times"),
            )
        })
        .await?;
    Ok(())
}

async fn mistakes(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let (a, b) = at_site1(stage);
    stage.step(
        "Mistakes",
        "A scope that is wrong is explained, and nothing is executed.",
    );
    stage
        .expect(&Call::get(a, "/hello").scope("B: sit2"), |check| {
            check
                .status(400)
                .member("/code", Code::UnknownSite.as_str())
                .mentions("did you mean `site2`?")
                .executed(&[])
        })
        .await?;
    stage
        .expect(&Call::get(b, "/items").scope("site1 & (site2"), |check| {
            let has_position = check.body()["position"] != Value::Null;
            check
                .status(400)
                .member("/code", Code::ScopeSyntax.as_str())
                .executed(&[])
                .that(has_position, "a position in the scope")
        })
        .await?;
    stage.step(
        "A path with two readings",
        "Some applications read `%2F` as a slash, some do not: a write could evade replication. It is refused.",
    );
    stage
        .expect(&Call::patch(b, "/items%2F1001", r#"{"price":1}"#), |check| {
            check
                .status(400)
                .member("/code", Code::PathAmbiguous.as_str())
                .executed(&[])
        })
        .await?;
    Ok(())
}
