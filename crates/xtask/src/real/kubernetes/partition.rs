//! Writes at several sites while none of them can reach another.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "three-writers",
        shows: "apply at Site1, patch at Site2 and replace at Site3 while cut: then all specs are equal, losers are conflicts",
        play: three_writers,
    },
    Scenario {
        name: "three-writers-one-refused",
        shows: "the same where the API refuses one of the writes: its caller is told, the others converge",
        play: one_refused,
    },
    Scenario {
        name: "one-name-twice",
        shows: "two users apply one new name at two sites while cut: one resource, equal, the other version can be applied again",
        play: one_name_twice,
    },
    Scenario {
        name: "away-100-changes",
        shows: "a site that was away during 100 changes has all of them after it is back",
        play: away,
    },
];

const ALL: [usize; 3] = [1, 2, 3];
const SCOPE: &str = "--scope=Site1 & Site2 & Site3";

/// A deployment whose pods nobody has to make.
fn deployment(name: &str, image: &str, label: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name, "tier": label}},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]}}}})
    .to_string()
}

/// How the agents call the replica set of a deployment.
fn key(namespace: &str, name: &str) -> String {
    format!("v1/{namespace}/{name}")
}

/// A deployment at three sites, applied at the first.
fn start(sites: &Sites, namespace: &str, name: &str) -> Result<()> {
    sites.namespace(namespace)?;
    sites
        .cheops_kubectl(1, ["-n", namespace, "apply", "-f", "-", SCOPE])
        .input(deployment(name, "nginx:0", "start"))
        .ok()?;
    sites.until_equal(&ALL, namespace, &format!("deployment/{name}"), &[])?;
    sites.until_ok(&ALL, &key(namespace, name))
}

fn three_writers(sites: &mut Sites) -> Result<String> {
    const NS: &str = "three-writers";
    start(sites, NS, "trio")?;
    sites.mesh.cut()?;
    sites
        .kubectl(1, ["-n", NS, "apply", "-f", "-"])
        .input(deployment("trio", "nginx:1", "applied"))
        .ok()?;
    let patch = r#"{"metadata":{"labels":{"tier":"patched"}},"spec":{"paused":true}}"#;
    sites
        .kubectl(2, ["-n", NS, "patch", "deployment/trio", "-p", patch])
        .ok()?;
    sites
        .kubectl(3, ["-n", NS, "replace", "-f", "-"])
        .input(deployment("trio", "nginx:3", "replaced"))
        .ok()?;
    let before: Vec<_> = ALL
        .into_iter()
        .map(|site| sites.until_is(site, NS, "deployment/trio", |_| true))
        .collect::<Result<_>>()?;
    let images: Vec<_> = before.iter().map(image).collect();
    ensure!(
        images == ["nginx:1", "nginx:0", "nginx:3"],
        "while cut each site has its own: {images:?}"
    );
    sites.mesh.heal()?;
    sites.until_ok(&ALL, &key(NS, "trio"))?;
    let result = sites.until_equal(&ALL, NS, "deployment/trio", &[])?;
    // The last write was a replace: nothing of the others is left.
    ensure!(
        image(&result) == "nginx:3",
        "the latest write did not win: {result:#}"
    );
    let losers = conflicts(sites)?;
    ensure!(losers == 2, "{losers} conflicts instead of 2");
    Ok(format!(
        "three sites, one spec ({}), {losers} conflicts",
        image(&result)
    ))
}

fn one_refused(sites: &mut Sites) -> Result<String> {
    const NS: &str = "one-refused";
    start(sites, NS, "shop")?;
    let known = conflicts(sites)?;
    sites.mesh.cut()?;
    sites
        .kubectl(1, ["-n", NS, "apply", "-f", "-"])
        .input(deployment("shop", "nginx:1", "applied"))
        .ok()?;
    // A selector cannot be changed.
    let patch = r#"{"spec":{"selector":{"matchLabels":{"app":"other"}}}}"#;
    let refused = sites
        .kubectl(2, ["-n", NS, "patch", "deployment/shop", "-p", patch])
        .fails()?;
    ensure!(
        refused.stderr.contains("is invalid") && refused.stderr.contains("selector"),
        "the API's own words are missing: {refused}"
    );
    sites
        .kubectl(3, ["-n", NS, "set", "image", "deployment/shop", "main=nginx:3"])
        .ok()?;
    sites.mesh.heal()?;
    sites.until_ok(&ALL, &key(NS, "shop"))?;
    let result = sites.until_equal(&ALL, NS, "deployment/shop", &[])?;
    ensure!(
        image(&result) == "nginx:3",
        "the latest write did not win: {result:#}"
    );
    ensure!(
        result["metadata"]["labels"]["tier"] == "applied",
        "what only Site1 wrote is lost: {result:#}"
    );
    let losers = conflicts(sites)? - known;
    ensure!(losers == 1, "{losers} conflicts instead of 1");
    Ok("the refused write left nothing, the others merged, the image that lost is a conflict".to_owned())
}

fn one_name_twice(sites: &mut Sites) -> Result<String> {
    const NS: &str = "one-name-twice";
    sites.namespace(NS)?;
    let known = conflicts(sites)?;
    let earlier = sites.conflicts(3)?;
    sites.mesh.cut()?;
    for (site, image) in [(1, "nginx:1"), (2, "nginx:2")] {
        sites
            .cheops_kubectl(site, ["-n", NS, "apply", "-f", "-", SCOPE])
            .input(deployment("twice", image, image.trim_start_matches("nginx:")))
            .ok()?;
    }
    sites.mesh.heal()?;
    sites.until_ok(&ALL, &key(NS, "twice"))?;
    let is = |wanted: &'static str| move |deployment: &serde_json::Value| image(deployment) == wanted;
    for site in ALL {
        sites.until_is(site, NS, "deployment/twice", is("nginx:2"))?;
    }
    let result = sites.until_equal(&ALL, NS, "deployment/twice", &[])?;
    ensure!(
        result["metadata"]["labels"]["tier"] == "2",
        "something of the earlier one is left: {result:#}"
    );
    let lost = conflicts(sites)? - known;
    ensure!(lost == 1, "{lost} conflicts instead of 1");
    // The version that lost is applied again, at a site that had neither.
    let listed = sites.conflicts(3)?;
    let fresh = listed.iter().filter(|conflict| !earlier.contains(conflict));
    let mut ids = fresh.filter_map(|conflict| conflict["id"].as_str());
    let loser = ids.find(|id| id.contains(":Site1."));
    let loser = loser.with_context(|| format!("no new conflict of Site1: {listed:#?}"))?;
    sites
        .mesh
        .site(3)
        .cheops(["conflicts", "reapply", loser, "--credential", "-"])
        .input("Authorization: Bearer admin-token\n".to_owned())
        .ok()?;
    for site in ALL {
        sites.until_is(site, NS, "deployment/twice", is("nginx:1"))?;
    }
    sites.until_equal(&ALL, NS, "deployment/twice", &[])?;
    // And deleted for good, wherever it was made.
    sites.kubectl(2, ["-n", NS, "delete", "deployment/twice"]).ok()?;
    sites.until_gone(&ALL, NS, "deployment/twice")?;
    Ok("one deployment, nginx:2 everywhere; nginx:1 applied again from Site3".to_owned())
}

fn image(deployment: &serde_json::Value) -> String {
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}

/// How many conflicts there are, which all sites agree about.
fn conflicts(sites: &Sites) -> Result<usize> {
    sites.until("all sites list the same conflicts", || {
        let counts: Vec<_> = ALL
            .into_iter()
            .map(|site| Ok(sites.conflicts(site)?.len()))
            .collect::<Result<_>>()?;
        ensure!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        Ok(Some(counts[0]))
    })
}

const MADE: usize = 40;
const CHANGED: usize = 40;
const DELETED: usize = 20;

/// 40 made, 40 changed, 20 deleted, in turns through the two sites that are left.
fn away(sites: &mut Sites) -> Result<String> {
    const NS: &str = "away";
    sites.namespace(NS)?;
    let config_maps = |value: &str| {
        let items: Vec<_> = (0..MADE)
            .map(|n| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{n}")},
                    "data": {"value": value}})
            })
            .collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    };
    sites.mesh.isolate(3)?;
    sites
        .cheops_kubectl(1, ["-n", NS, "create", "-f", "-", SCOPE])
        .input(config_maps("first"))
        .ok()?;
    sites.until_is(2, NS, &format!("configmap/map-{}", MADE - 1), |_| true)?;
    sites
        .kubectl(2, ["-n", NS, "replace", "-f", "-"])
        .input(config_maps("second"))
        .ok()?;
    let names = (0..DELETED).map(|n| format!("map-{n}"));
    sites
        .kubectl(1, ["-n", NS, "delete", "configmap"])
        .args(names)
        .ok()?;
    ensure!(
        sites.read(3, NS, &format!("configmap/map-{DELETED}"))?.is_none(),
        "Site3 was not away"
    );
    let back = std::time::Instant::now();
    sites.mesh.rejoin(3)?;
    let expected = MADE - DELETED;
    sites.until("Site3 has what the others have", || {
        let selector =
            r#"go-template={{range .items}}{{.metadata.name}} {{index .data "value"}}{{"\n"}}{{end}}"#;
        let mut lists = Vec::new();
        for site in ALL {
            let list = sites
                .direct(site, ["-n", NS, "get", "configmaps", "-o", selector])
                .ok()?;
            let own = list.stdout.lines().filter(|line| line.starts_with("map-"));
            lists.push(own.map(str::to_owned).collect::<Vec<_>>());
        }
        let done = lists[0].len() == expected && lists.iter().all(|list| *list == lists[0]);
        ensure!(
            done && lists[0].iter().all(|line| line.ends_with(" second")),
            "{:?} config maps",
            lists.iter().map(Vec::len).collect::<Vec<_>>()
        );
        Ok(Some(()))
    })?;
    Ok(format!(
        "{} changes, {expected} config maps left, the same everywhere {:.1} s after the link was healed",
        MADE + CHANGED + DELETED,
        back.elapsed().as_secs_f64()
    ))
}
