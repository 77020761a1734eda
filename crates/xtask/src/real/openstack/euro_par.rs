//! Commands 1 to 4 of "Geo-Distribute Cloud Applications at the Edge" (Euro-Par 2021), with its data centres
//! called as the sites are. The paper leaves out what the client insists on: a flavor, and whether there is
//! a network.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Scenario, Sites,
    service::Service,
    sites::{COMPLETE, SOON},
};
use crate::docs::words;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "command-1",
        shows: "a server boots locally without a scope, also while the sites are cut",
        play: command_1,
    },
    Scenario {
        name: "command-2",
        shows: "a server boots with an explicit local scope, also while the sites are cut",
        play: command_2,
    },
    Scenario {
        name: "command-3",
        shows: "a server boots at Site1 with the image of Site2: its glance is asked, Site1's is not",
        play: command_3,
    },
    Scenario {
        name: "command-4",
        shows: "an image with data is made at both sites under one id, and boots at each while they are cut",
        play: command_4,
    },
];

const COMMAND_1: &str = "server create my-vm --image debian";
const COMMAND_2: &str = "server create my-vm --image debian --scope '{ compute: Site1, image: Site1 }'";
const COMMAND_3: &str = "server create my-vm --image debian --scope '{ compute: Site1, image: Site2 }'";
const COMMAND_4: &str = "image create debian --file ./debian.qcow2 --scope '{ image: Site1 & Site2 }'";
const IMPLIED: &str = "--flavor m1.nano --nic none";

fn command_1(sites: &mut Sites) -> Result<String> {
    local(sites, COMMAND_1)
}

fn command_2(sites: &mut Sites) -> Result<String> {
    local(sites, COMMAND_2)
}

fn local(sites: &mut Sites, command: &str) -> Result<String> {
    let image = sites.image(1, "debian", None)?;
    sites.image(2, "debian", None)?;
    let elsewhere = sites.mark(2)?;
    let command = format!("{command} {IMPLIED}");
    boot(sites, 1, &command, &image)?;
    sites.mesh.cut()?;
    boot(sites, 1, &command, &image)?;
    let asked = sites.asked(elsewhere)?;
    ensure!(asked.is_empty(), "glance of Site2 was asked: {asked:?}");
    Ok("ACTIVE twice, the second time while cut; Site2 was not asked".to_owned())
}

fn command_3(sites: &mut Sites) -> Result<String> {
    sites.image(1, "debian", None)?;
    let image = sites.image(2, "debian", None)?;
    let marks = [sites.mark(1)?, sites.mark(2)?];
    boot(sites, 1, &format!("{COMMAND_3} {IMPLIED}"), &image)?;
    let [here, there] = [sites.asked(marks[0])?, sites.asked(marks[1])?];
    ensure!(here.is_empty(), "glance of Site1 was asked: {here:?}");
    let about = format!("GET /v2/images/{image}");
    let count = there.iter().filter(|request| **request == about).count();
    // The client once, to find the name's id; the rest is nova.
    ensure!(count > 1, "nova did not ask glance of Site2: {there:?}");
    Ok(format!(
        "ACTIVE; glance of Site2 was asked {} times, that of Site1 never",
        there.len()
    ))
}

fn command_4(sites: &mut Sites) -> Result<String> {
    const BYTES: usize = 3_000_000;
    for site in COMPLETE {
        sites.remove_images(site, "debian")?;
    }
    let data: Vec<u8> = (0..BYTES).map(|at| (at * at % 251) as u8).collect();
    fs::write(sites.dir.join("debian.qcow2"), &data)?;
    let made = sites
        .openstack(1, words(COMMAND_4).context("a simple command")?)
        .args(["-f", "json"])
        .dir(&sites.dir)
        .json()?;
    let id = text(&made, "id")?;
    for site in COMPLETE {
        let image = sites.until(&format!("image {id} is active at Site{site}"), || {
            let answer = sites
                .direct(site, Service::Image, "GET", &format!("/v2/images/{id}"))?
                .expect(200)?;
            let image = answer.json()?;
            ensure!(image["status"] == "active", "it is {image}");
            Ok(Some(image))
        })?;
        ensure!(
            image["size"] == BYTES,
            "the data at Site{site} has another length: {image}"
        );
        let sums = [&image["os_hash_value"], &made["properties"]["os_hash_value"]];
        ensure!(
            sums[0] == sums[1] || sums[1].is_null(),
            "Site{site} has other data: {sums:?}"
        );
        let stored = fs::read(sites.dir.join(format!("testbed/site{site}/images/{id}")))?;
        ensure!(stored == data, "Site{site} stores other bytes than were sent");
    }
    sites.mesh.cut()?;
    for site in COMPLETE {
        let marks = [sites.mark(1)?, sites.mark(2)?];
        let command = format!("server create my-vm --image {id} {IMPLIED}");
        boot(sites, site, &command, &id)?;
        let other = sites.asked(marks[2 - site])?;
        ensure!(other.is_empty(), "the other site was asked: {other:?}");
    }
    sites.mesh.heal()?;
    sites.openstack(2, ["image", "delete", &id]).ok()?;
    for site in COMPLETE {
        sites.until(&format!("image {id} is gone from Site{site}"), || {
            let answer = sites
                .direct(site, Service::Image, "GET", &format!("/v2/images/{id}"))?
                .send()?;
            Ok((answer.status == 404).then_some(()))
        })?;
    }
    Ok(format!(
        "{BYTES} bytes at both sites under {id}; ACTIVE at each while cut; deleted through Site2"
    ))
}

/// Runs a `server create` at a site and waits until the server is active there, with that image.
fn boot(sites: &Sites, site: usize, command: &str, image: &str) -> Result<()> {
    let args = words(command).with_context(|| format!("{command} is no simple command"))?;
    let made = sites
        .openstack(site, args)
        .args(["-f", "json"])
        .timeout(SOON)
        .json()?;
    let id = text(&made, "id")?;
    let server = sites.until_active(site, &id)?;
    if server["image"]["id"] != image {
        bail!("the server has another image than {image}: {server}");
    }
    sites
        .direct(site, Service::Compute, "DELETE", &format!("/v2.1/servers/{id}"))?
        .expect(204)?;
    Ok(())
}

fn text(value: &Value, key: &str) -> Result<String> {
    let text = value[key].as_str();
    Ok(text.with_context(|| format!("no {key} in {value}"))?.to_owned())
}
