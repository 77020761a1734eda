//! Servers at several sites.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Scenario, Sites, service::Service, sites::COMPLETE};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "server-at-both",
    shows: "a server made at both sites has one id for its callers, is changed and deleted as one, also across a cut",
    play: server_at_both,
}];

const BOTH: &str = "{ compute: Site1 & Site2 }";

fn server_at_both(sites: &mut Sites) -> Result<String> {
    let image = "5e4be401-0000-4000-8000-00000000debd";
    for site in COMPLETE {
        sites.image(site, "debian", Some(image))?;
    }
    let server = json!({ "name": "both", "imageRef": image, "flavorRef": "1" });
    let made = sites
        .through(1, Service::Compute, "POST", "/v2.1/servers")?
        .scope(BOTH)
        .wait()
        .json(&json!({ "server": server }))
        .expect(202)?;
    let id = made.json()?["server"]["id"]
        .as_str()
        .context("a server has an id")?
        .to_owned();
    let path = format!("/v2.1/servers/{id}");
    // Each site's own id is another; callers see one, at both.
    for site in COMPLETE {
        ensure!(
            sites.server(site, &id)?.is_none(),
            "nova of Site{site} chose the id that callers see"
        );
        sites.until(&format!("server {id} is active through Site{site}"), || {
            let shown = through(sites, site, &path)?;
            ensure!(
                shown["id"] == id.as_str() && shown["status"] == "ACTIVE",
                "it is {shown}"
            );
            Ok(Some(()))
        })?;
    }
    sites.mesh.cut()?;
    let rename = json!({ "server": { "name": "renamed" } });
    sites
        .through(2, Service::Compute, "PUT", &path)?
        .json(&rename)
        .expect(200)?;
    ensure!(
        through(sites, 1, &path)?["name"] == "both",
        "Site1 knows of it while cut"
    );
    sites.mesh.heal()?;
    sites.until("the name reaches Site1", || {
        Ok((through(sites, 1, &path)?["name"] == "renamed").then_some(()))
    })?;
    sites
        .through(1, Service::Compute, "DELETE", &path)?
        .wait()
        .expect(204)?;
    for site in COMPLETE {
        sites.until(&format!("no server is left at Site{site}"), || {
            let listed = sites
                .direct(site, Service::Compute, "GET", "/v2.1/servers?name=renamed")?
                .expect(200)?;
            Ok((listed.json()?["servers"] == json!([])).then_some(()))
        })?;
    }
    Ok(format!(
        "ACTIVE at both sites as {id}, renamed across a cut, deleted at both"
    ))
}

fn through(sites: &Sites, site: usize, path: &str) -> Result<Value> {
    Ok(sites
        .through(site, Service::Compute, "GET", path)?
        .expect(200)?
        .json()?["server"]
        .take())
}
