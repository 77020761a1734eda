//! Identity elsewhere: users of another site, with the same keystone data and with different.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{
    Scenario, Sites,
    curl::Curl,
    service::{Door, Service},
    sites::{FOREIGN, sign_in},
};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "identity-shared",
        shows: "a user of Site2 boots at Site1 with `identity: Site2`, where the sites share users and keys",
        play: shared,
    },
    Scenario {
        name: "identity-foreign",
        shows: "a user whom only Site3 knows is refused at Site1, and the receipt says who refused: the sites share no users",
        play: foreign,
    },
];

fn shared(sites: &mut Sites) -> Result<String> {
    boot_with_identity_at(sites, 2)?;
    Ok("token of Site2's keystone, server ACTIVE at Site1".to_owned())
}

fn foreign(sites: &mut Sites) -> Result<String> {
    let token = sign_in_at(sites, FOREIGN)?;
    let ask = |scope: &str| {
        let request = sites.curl(1, Service::Compute, Door::Public, "GET", "/v2.1/servers");
        request.token(&token).scope(scope).send()
    };
    let here = ask("compute: Site1")?;
    let receipt = here.receipt()?;
    let visit = receipt.sites.first().context("a receipt has sites")?;
    ensure!(
        here.status == 401 && visit.site.as_str() == "Site1" && visit.status == Some(401),
        "the receipt does not say who refused: {receipt:?}"
    );
    // Site3 is asked about the token, but by a nova that it does not know.
    let there = ask(&format!("{{ compute: Site1, identity: Site{FOREIGN} }}"))?;
    let receipt = there.receipt()?;
    let mut asked = receipt
        .workflow
        .iter()
        .filter(|visit| visit.site.as_str() == format!("Site{FOREIGN}"));
    ensure!(
        there.status >= 400 && asked.any(|visit| visit.status == Some(401)),
        "the receipt does not say who refused: {there:?}"
    );
    Ok(format!(
        "401 by Site1; with `identity: Site{FOREIGN}` {}",
        receipt.to_header()
    ))
}

/// A token of another site's keystone, through the agent of Site1.
fn sign_in_at(sites: &Sites, site: usize) -> Result<String> {
    let request = sites.curl(1, Service::Identity, Door::Public, "POST", "/v3/auth/tokens");
    sign_in(request.scope(&format!("identity: Site{site}")))
}

fn boot_with_identity_at(sites: &Sites, site: usize) -> Result<()> {
    let image = sites.image(1, "debian", None)?;
    let token = sign_in_at(sites, site)?;
    let scope = format!("{{ identity: Site{site}, compute: Site1, image: Site1 }}");
    let request = |method: &str, path: &str| -> Curl {
        sites
            .curl(1, Service::Compute, Door::Public, method, path)
            .token(&token)
            .scope(&scope)
    };
    let server = json!({ "name": "from-elsewhere", "imageRef": image, "flavorRef": "1" });
    let made = request("POST", "/v2.1/servers")
        .json(&json!({ "server": server }))
        .expect(202)?;
    let id = made.json()?["server"]["id"]
        .as_str()
        .context("a server has an id")?
        .to_owned();
    let path = format!("/v2.1/servers/{id}");
    sites.until(&format!("server {id} is active"), || {
        let server = request("GET", &path).expect(200)?.json()?["server"].take();
        ensure!(server["status"] == "ACTIVE", "it is {server}");
        Ok(Some(()))
    })?;
    request("DELETE", &path).expect(204)?;
    Ok(())
}
