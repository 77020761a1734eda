//! Bad input, and whose refusal it is.

use anyhow::{Context as _, Result, ensure};

use super::{
    Scenario, Sites,
    service::{Door, Service},
};
use crate::docs::words;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "unknown-service",
        shows: "a scope that names a service which OpenStack here lacks is refused with the names that there are",
        play: unknown_service,
    },
    Scenario {
        name: "expired-token",
        shows: "a token that has ended is refused by the remote site; its 401 reaches the caller, and the receipt says whose it is",
        play: expired_token,
    },
];

const WRONG: &str = "server list --scope '{ compute: Site1, images: Site2 }'";

fn unknown_service(sites: &mut Sites) -> Result<String> {
    let refused = sites
        .openstack(1, words(WRONG).context("a simple command")?)
        .fails()?;
    ensure!(
        refused.stderr.contains("images") && refused.stderr.contains("`image`"),
        "the message does not help: {refused}"
    );
    let by_hand = sites
        .through(1, Service::Compute, "GET", "/v2.1/servers")?
        .scope("volume: Site2")
        .expect(400)?;
    let problem = by_hand.json()?;
    ensure!(problem["code"] == "unknown_service", "another problem: {problem}");
    ensure!(
        by_hand.receipt()?.certainly_not_executed(),
        "something was executed: {problem}"
    );
    Ok(refused
        .stderr
        .trim()
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned())
}

fn expired_token(sites: &mut Sites) -> Result<String> {
    let token = sites.short_token(2, -10)?;
    let ask = |scope: &str| {
        sites
            .curl(1, Service::Compute, Door::Public, "GET", "/v2.1/servers")
            .token(&token)
            .scope(scope)
            .expect(401)
    };
    let answer = ask("{ compute: Site2 }")?;
    let receipt = answer.receipt()?;
    let visit = receipt.sites.first().context("a receipt has sites")?;
    ensure!(
        visit.site.as_str() == "Site2" && visit.status == Some(401),
        "the receipt does not say whose 401 it is: {receipt:?}"
    );
    ensure!(
        answer.header("www-authenticate").is_some(),
        "keystone's own hint was lost: {answer:?}"
    );
    Ok(receipt.to_header())
}
