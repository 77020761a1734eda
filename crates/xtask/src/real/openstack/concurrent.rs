//! Many workflows at once, each with a scope of its own.

use std::{collections::BTreeMap, thread};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;

use super::{
    Scenario, Sites,
    service::{Door, Service},
    sites::COMPLETE,
};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "fifty-boots",
    shows: "of 50 servers booted at once with different scopes, each asks the glance that its own scope says",
    play: fifty_boots,
}];

const BOOTS: usize = 50;

/// One boot, accepted by the agent of Site1.
struct Boot {
    scope: &'static str,
    compute: usize,
    image_at: usize,
    /// Of its own, and at both sites: whoever is asked wrongly has it too.
    image: String,
}

const SCOPES: [(&str, usize, usize); 5] = [
    ("", 1, 1),
    ("{ compute: Site1, image: Site1 }", 1, 1),
    ("{ compute: Site1, image: Site2 }", 1, 2),
    ("{ compute: Site2, image: Site1 }", 2, 1),
    ("{ compute: Site2, image: Site2 }", 2, 2),
];

fn fifty_boots(sites: &mut Sites) -> Result<String> {
    let boots: Vec<_> = SCOPES
        .iter()
        .cycle()
        .take(BOOTS)
        .zip(1..)
        .map(|(&(scope, compute, image_at), number): (_, usize)| Boot {
            scope,
            compute,
            image_at,
            image: format!("50b00750-0000-4000-8000-{number:012}"),
        })
        .collect();
    let token = sites.token()?;
    let requests = boots.iter().flat_map(|boot| COMPLETE.map(|site| (boot, site)));
    for (boot, site) in requests {
        sites.image(site, &boot.image, Some(&boot.image))?;
    }
    let marks = COMPLETE.map(|site| sites.mark(site));
    // All requests are made first and sent together.
    let sends: Vec<_> = boots
        .iter()
        .map(|boot| {
            let server = json!({ "name": boot.image, "imageRef": boot.image, "flavorRef": "1" });
            let request = sites
                .curl(1, Service::Compute, Door::Public, "POST", "/v2.1/servers")
                .token(&token)
                .json(&json!({ "server": server }));
            if boot.scope.is_empty() {
                request
            } else {
                request.scope(boot.scope)
            }
        })
        .map(|request| thread::spawn(move || request.expect(202)))
        .collect();
    let mut servers = Vec::new();
    for (boot, send) in boots.iter().zip(sends) {
        let answer = send.join().map_err(|_| anyhow!("a request panicked"))??;
        let id = answer.json()?["server"]["id"]
            .as_str()
            .context("a server has an id")?
            .to_owned();
        servers.push((boot, id));
    }
    for (boot, id) in &servers {
        let server = sites.until_active(boot.compute, id).with_context(|| boot.scope)?;
        ensure!(
            server["image"]["id"] == boot.image.as_str(),
            "another image than {}: {server}",
            boot.image
        );
    }
    let mut calls = BTreeMap::new();
    for (site, mark) in COMPLETE.into_iter().zip(marks) {
        for request in sites.asked(mark?)? {
            let image = request.rsplit('/').next().unwrap_or_default().to_owned();
            calls.entry(image).or_insert_with(Vec::new).push(site);
        }
    }
    let mut count = 0;
    for boot in &boots {
        let asked = calls.get(&boot.image).map_or(&[][..], Vec::as_slice);
        let right = !asked.is_empty() && asked.iter().all(|site| *site == boot.image_at);
        ensure!(right, "{:?} asked the glances of {asked:?}", boot.scope);
        count += asked.len();
    }
    for (boot, id) in &servers {
        sites
            .direct(
                boot.compute,
                Service::Compute,
                "DELETE",
                &format!("/v2.1/servers/{id}"),
            )?
            .expect(204)?;
    }
    Ok(format!(
        "{BOOTS} servers ACTIVE, {count} calls of nova to glance, each where its scope says"
    ))
}
