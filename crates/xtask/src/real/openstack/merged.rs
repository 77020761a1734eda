//! What the research report RR-9336 shows of scope-lang: `&`, `|` and `around`.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Scenario, Sites, service::Service, sites::COMPLETE};
use crate::docs::words;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "server-list",
        shows: "`server list` with `compute: Site1 & Site2` has the servers of both sites, whole or paged",
        play: server_list,
    },
    Scenario {
        name: "first-available",
        shows: "a server boots with `image: Site1 | Site2` and `around(Site1, 10ms)` while Site1's glance is down",
        play: first_available,
    },
];

const LIST: &str = "server list --scope '{ compute: Site1 & Site2 }' --long -f json";
const EITHER: &str = "server create my-vm --image debian --scope '{ compute: Site1, image: Site1 | Site2 }'";
const AROUND: &str =
    "server create my-vm --image debian --scope '{ compute: Site1, image: around(Site1, 10ms) }'";
const IMPLIED: &str = "--flavor m1.nano --nic none -f json";

fn server_list(sites: &mut Sites) -> Result<String> {
    let mut made = Vec::new();
    for site in COMPLETE {
        let image = sites.image(site, "debian", None)?;
        for number in 1..=2 {
            let server =
                json!({ "name": format!("of-site{site}-{number}"), "imageRef": image, "flavorRef": "1" });
            let body = json!({ "server": server });
            let answer = sites
                .direct(site, Service::Compute, "POST", "/v2.1/servers")?
                .json(&body)
                .expect(202)?;
            let id = answer.json()?["server"]["id"]
                .as_str()
                .context("a server has an id")?
                .to_owned();
            sites.until_active(site, &id)?;
            made.push((site, id));
        }
    }
    let all = json_list(sites, LIST)?;
    let paged = json_list(sites, &format!("{LIST} --limit -1"))?;
    for (site, id) in &made {
        for (list, which) in [(&all, "list"), (&paged, "list in pages")] {
            let count = list.iter().filter(|server| server["ID"] == id.as_str()).count();
            ensure!(
                count == 1,
                "server {id} of Site{site} is {count} times in the {which}: {list:?}"
            );
        }
    }
    let mut by_hand = sites.through(1, Service::Compute, "GET", "/v2.1/servers/detail")?;
    by_hand = by_hand.scope("{ compute: Site1 & Site2 }");
    let answer = by_hand.expect(200)?;
    let receipt = answer.receipt()?;
    ensure!(
        receipt.sites.len() == 2,
        "not both sites are in the receipt: {receipt:?}"
    );
    // Behind a cut the list is what can be had, and says so.
    sites.mesh.cut()?;
    let here = json_list(sites, LIST)?;
    for (site, id) in &made {
        let is_there = here.iter().any(|server| server["ID"] == id.as_str());
        ensure!(
            is_there == (*site == 1),
            "while cut, server {id} of Site{site}: {is_there}"
        );
    }
    sites.mesh.heal()?;
    for (site, id) in &made {
        sites
            .direct(*site, Service::Compute, "DELETE", &format!("/v2.1/servers/{id}"))?
            .expect(204)?;
    }
    Ok(format!(
        "{} servers of both sites, {} while cut",
        all.len(),
        here.len()
    ))
}

fn first_available(sites: &mut Sites) -> Result<String> {
    let id = "0debdeb0-0000-4000-8000-00000000debd";
    for site in COMPLETE {
        sites.image(site, "debian", Some(id))?;
    }
    // Agents know what versions glance has from when it was last asked.
    sites.openstack(1, ["image", "list"]).ok()?;
    sites.stop(1, Service::Image)?;
    for command in [EITHER, AROUND] {
        let there = sites.mark(2)?;
        let made = sites
            .openstack(
                1,
                words(&format!("{command} {IMPLIED}")).context("a simple command")?,
            )
            .json()?;
        let server = made["id"].as_str().context("a server has an id")?;
        sites.until_active(1, server)?;
        let asked = sites.asked(there)?;
        ensure!(
            asked.iter().any(|request| request.ends_with(id)),
            "glance of Site2 was asked {asked:?}"
        );
        sites
            .direct(1, Service::Compute, "DELETE", &format!("/v2.1/servers/{server}"))?
            .expect(204)?;
    }
    sites.resume(1, Service::Image)?;
    let marks = [sites.mark(1)?, sites.mark(2)?];
    let made = sites
        .openstack(
            1,
            words(&format!("{AROUND} {IMPLIED}")).context("a simple command")?,
        )
        .json()?;
    let server = made["id"].as_str().context("a server has an id")?;
    sites.until_active(1, server)?;
    let [here, there] = [sites.asked(marks[0])?, sites.asked(marks[1])?];
    ensure!(
        !here.is_empty() && there.is_empty(),
        "with both glances up: Site1 {here:?}, Site2 {there:?}"
    );
    sites
        .direct(1, Service::Compute, "DELETE", &format!("/v2.1/servers/{server}"))?
        .expect(204)?;
    Ok("ACTIVE with both scopes, by Site2's glance; by Site1's once it is up again".to_owned())
}

fn json_list(sites: &Sites, command: &str) -> Result<Vec<Value>> {
    let args = words(command).with_context(|| format!("{command} is no simple command"))?;
    let listed = sites.openstack(1, args).json()?;
    Ok(listed.as_array().context("a list is an array")?.clone())
}
