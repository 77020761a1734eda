//! Replicated images after they were made: changes, conflicts, tokens that end.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{
    Scenario, Sites,
    service::{Door, Service},
    sites::COMPLETE,
};
use crate::real::Run;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "image-changes",
        shows: "changes of a replicated image at either site reach both, also from both sides of a cut; one loses",
        play: image_changes,
    },
    Scenario {
        name: "ended-token",
        shows: "a token that ended while the sites were cut does not stop what was accepted with it",
        play: ended_token,
    },
];

const BOTH: &str = "{ image: Site1 & Site2 }";
const PATCH: &str = "application/openstack-images-v2.1-json-patch";

fn image_changes(sites: &mut Sites) -> Result<String> {
    let image = json!({ "name": "changed", "disk_format": "raw", "container_format": "bare" });
    let made = sites
        .through(1, Service::Image, "POST", "/v2/images")?
        .scope(BOTH)
        .wait()
        .json(&image)
        .expect(201)?;
    let id = made.json()?["id"]
        .as_str()
        .context("an image has an id")?
        .to_owned();
    let path = format!("/v2/images/{id}");
    let rename = |site: usize, name: &str| {
        let patch = json!([{ "op": "replace", "path": "/name", "value": name }]);
        sites
            .through(site, Service::Image, "PATCH", &path)?
            .wait()
            .body(PATCH, &patch.to_string())
            .expect(200)
    };
    rename(2, "by-site2")?;
    both_are(sites, &id, |image| image["name"] == "by-site2")?;
    let tag = |site: usize, tag: &str| {
        sites
            .through(site, Service::Image, "PUT", &format!("{path}/tags/{tag}"))?
            .expect(204)
    };
    sites.mesh.cut()?;
    rename(1, "one")?;
    rename(2, "two")?;
    tag(1, "left")?;
    tag(2, "right")?;
    sites.mesh.heal()?;
    let names = both_are(sites, &id, |image| {
        image["tags"].as_array().is_some_and(|tags| tags.len() == 2)
    })?;
    ensure!(
        names[0]["name"] == names[1]["name"],
        "the sites disagree: {names:?}"
    );
    sites.until("the loser is among the conflicts", || {
        let listed = sites.mesh.site(1).cheops(["conflicts", "ls", "--json"]).ok()?;
        Ok(listed.stdout.contains(&id).then_some(()))
    })?;
    sites
        .through(2, Service::Image, "DELETE", &path)?
        .wait()
        .expect(204)?;
    gone(sites, &id)?;
    Ok(format!(
        "both sites: {} with both tags, the other name is a conflict; deleted through Site2",
        names[0]["name"]
    ))
}

fn ended_token(sites: &mut Sites) -> Result<String> {
    const SECONDS: i64 = 8;
    set_up(sites)?;
    sites.mesh.cut()?;
    let token = sites.short_token(1, SECONDS)?;
    let image = json!({ "name": "late", "disk_format": "raw", "container_format": "bare" });
    let made = sites
        .curl(1, Service::Image, Door::Public, "POST", "/v2/images")
        .token(&token)
        .scope(BOTH)
        .json(&image)
        .expect(201)?;
    let id = made.json()?["id"]
        .as_str()
        .context("an image has an id")?
        .to_owned();
    sites.until("the token has ended", || {
        let answer = sites
            .curl(2, Service::Image, Door::Itself, "GET", "/v2/images")
            .token(&token)
            .send()?;
        Ok((answer.status == 401).then_some(()))
    })?;
    sites.mesh.heal()?;
    both_are(sites, &id, |image| image["name"] == "late")?;
    sites
        .through(1, Service::Image, "DELETE", &format!("/v2/images/{id}"))?
        .wait()
        .expect(204)?;
    gone(sites, &id)?;
    Ok(format!(
        "made at Site2 after the caller's {SECONDS} s token had ended"
    ))
}

/// Does what `cheops glue setup openstack` prints, at each site: a service user for its agent.
fn set_up(sites: &Sites) -> Result<()> {
    for number in COMPLETE {
        let site = sites.mesh.site(number);
        let script = site.cheops(["glue", "setup", "openstack"]).ok()?.stdout;
        sites
            .with_account(Run::new(&sites.interrupt, "sh"), number, Door::Public)
            .dir(site.dir())
            .input(script)
            .ok()?;
        let config = fs::read_to_string(site.config())?;
        let table = "[services.identity]\n";
        let with_credential = format!("{table}credential = \"openstack.json\"\n");
        fs::write(site.config(), config.replacen(table, &with_credential, 1))?;
        site.cheops(["reload"]).ok()?;
    }
    Ok(())
}

/// Waits until the image is so at both sites' glances.
fn both_are(sites: &Sites, id: &str, is: impl Fn(&Value) -> bool) -> Result<[Value; 2]> {
    let mut found = Vec::new();
    for site in COMPLETE {
        found.push(sites.until(&format!("image {id} at Site{site}"), || {
            let answer = sites
                .direct(site, Service::Image, "GET", &format!("/v2/images/{id}"))?
                .expect(200)?;
            let image = answer.json()?;
            ensure!(is(&image), "it is {image}");
            Ok(Some(image))
        })?);
    }
    found.try_into().ok().context("one image per site")
}

fn gone(sites: &Sites, id: &str) -> Result<()> {
    for site in COMPLETE {
        sites.until(&format!("image {id} is gone from Site{site}"), || {
            let answer = sites
                .direct(site, Service::Image, "GET", &format!("/v2/images/{id}"))?
                .send()?;
            Ok((answer.status == 404).then_some(()))
        })?;
    }
    Ok(())
}
