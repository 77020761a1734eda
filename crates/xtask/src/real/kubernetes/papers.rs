//! The papers' own validation, and what they left open about it.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[
    Scenario {
        name: "papers-table",
        shows: "pods purple and violet, created from Site1 and from Site2 with {Site1&Site2}, are at both; each shows its own",
        play: table,
    },
    Scenario {
        name: "update-delete",
        shows: "a replicated pod is updated and deleted through either of its sites",
        play: update_delete,
    },
];

/// The scope as both papers write it, glued to its option: `--scope{…}` in the thesis, `-scope{…}` in the report.
const THESIS: &str = "--scope{Site1&Site2}";
const REPORT: &str = "-scope{Site1&Site2}";

/// kubectl has no `create pod`: `run` creates one by name.
const RUN: [&str; 2] = ["--image=nginx", "--restart=Never"];

fn table(sites: &mut Sites) -> Result<String> {
    let create = |site: usize, name: &str, scope: &str| {
        let created = sites
            .cheops_kubectl(site, ["run", name, RUN[0], RUN[1], scope])
            .ok()?;
        ensure!(created.said() == format!("pod/{name} created"), "{created}");
        Ok(())
    };
    create(1, "purple", THESIS)?;
    create(2, "violet", THESIS)?;
    create(1, "purple-report", REPORT)?;
    create(2, "violet-report", REPORT)?;
    for pod in ["purple", "violet", "purple-report", "violet-report"] {
        for site in [1, 2] {
            sites.until_is(site, "default", &format!("pod/{pod}"), |_| true)?;
        }
        for site in sites.all().skip(2) {
            let elsewhere = sites.read(site, "default", &format!("pod/{pod}"))?;
            ensure!(
                elsewhere.is_none(),
                "{pod} is at Site{site}, which no scope named"
            );
        }
    }
    // What each site displays is its own replica.
    let mut shown = Vec::new();
    for site in [1, 2] {
        let get = sites
            .kubectl(site, ["get", "pod", "violet", "-o", "json"])
            .json()?;
        let own = sites
            .read(site, "default", "pod/violet")?
            .context("violet is there")?;
        ensure!(
            uid(&get) == uid(&own),
            "Site{site} displays another pod than its own"
        );
        shown.push(uid(&get));
    }
    ensure!(shown[0] != shown[1], "both sites display the same pod");
    Ok("purple and violet at Site1 and Site2, by both spellings; each site shows its own".to_owned())
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].to_string()
}

fn update_delete(sites: &mut Sites) -> Result<String> {
    const NS: &str = "update-delete";
    sites.namespace_for_pods(NS)?;
    for (creator, other) in [(1, 2), (2, 1)] {
        let pod = format!("by-site{creator}");
        let what = format!("pod/{pod}");
        sites
            .cheops_kubectl(creator, ["-n", NS, "run", &pod, RUN[0], RUN[1], THESIS])
            .ok()?;
        sites.until_is(other, NS, &what, |_| true)?;
        // No scope any more: the pod is known to be replicated.
        let colour = |site: usize, colour: &str| {
            sites
                .kubectl(
                    site,
                    [
                        "-n",
                        NS,
                        "label",
                        "--overwrite",
                        &what,
                        &format!("colour={colour}"),
                    ],
                )
                .ok()
        };
        let has = |colour: &'static str| move |pod: &Value| pod["metadata"]["labels"]["colour"] == colour;
        colour(other, "purple")?;
        sites.until_is(creator, NS, &what, has("purple"))?;
        colour(creator, "violet")?;
        sites.until_is(other, NS, &what, has("violet"))?;
        // The image is the part of a pod's specification that may change.
        let image = r#"{"spec":{"containers":[{"name":"IT","image":"nginx:2"}]}}"#.replace("IT", &pod);
        sites
            .kubectl(other, ["-n", NS, "patch", &what, "-p", &image])
            .ok()?;
        sites.until_is(creator, NS, &what, |pod| {
            pod["spec"]["containers"][0]["image"] == "nginx:2"
        })?;
        sites.kubectl(other, ["-n", NS, "delete", &what]).ok()?;
        sites.until_gone(&[1, 2], NS, &what)?;
    }
    Ok("labels, an image and the end, each through the site that had not created the pod".to_owned())
}
