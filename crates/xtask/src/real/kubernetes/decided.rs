//! Resources that the sites decide about together.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "leader-cut-off",
    shows: "a config map under strong(...): the deciding site is cut off while three clients write; one history, no conflict",
    play: leader_cut_off,
}];

const NS: &str = "decided";
const NAME: &str = "configmap/ledger";
const SCOPE: &str = "--scope=strong(Site1 & Site2 & Site3)";
const ALL: [usize; 3] = [1, 2, 3];
/// Patches of each client.
const WRITES: usize = 8;
/// By then the sites that are left have chosen another one to decide.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client's patch came to.
enum Came {
    Acknowledged,
    /// Nothing executed.
    Refused,
    /// It may have been decided.
    Unknown,
}

/// A client's patches: each sets a key of its own, and who wrote last.
fn write(sites: &Sites, site: usize) -> Result<Vec<(String, Came)>> {
    let begin = Instant::now();
    let mut all = Vec::new();
    let mut done = 0;
    while done < WRITES && begin.elapsed() < PATIENCE {
        let key = format!("site{site}-{}", all.len());
        let patch = json!({"data": {&key: "yes", "last": &key}}).to_string();
        let args = ["-n", NS, "patch", NAME, "--type=merge", "-p", &patch];
        let output = sites
            .kubectl(site, args)
            .timeout(Duration::from_secs(30))
            .output()?;
        let came = match output.is_ok() {
            true => Came::Acknowledged,
            // kubectl shows the status in its own words.
            false if output.stderr.contains("unable to handle the request") => Came::Refused,
            false => Came::Unknown,
        };
        done += usize::from(matches!(came, Came::Acknowledged));
        let is_refused = matches!(came, Came::Refused);
        all.push((key, came));
        if is_refused && site == 1 && all.len() > WRITES {
            // It is cut off, and says so.
            break;
        }
        if is_refused {
            thread::sleep(Duration::from_millis(300));
        }
    }
    Ok(all)
}

fn leader_cut_off(sites: &mut Sites) -> Result<String> {
    sites.namespace(NS)?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ledger"}, "data": {"last": "none"}});
    sites
        .cheops_kubectl(1, ["-n", NS, "create", "-f", "-", SCOPE])
        .input(map.to_string())
        .ok()?;
    sites.until_equal(&ALL, NS, NAME, &[])?;
    let known = conflicts(sites)?;
    let sites = &*sites;
    let (came, cut) = thread::scope(|scope| -> Result<_> {
        let clients = ALL.map(|site| scope.spawn(move || write(sites, site)));
        thread::sleep(Duration::from_millis(500));
        // The site that made it decides.
        sites.mesh.isolate(1)?;
        let mut came = Vec::new();
        for client in clients {
            let told = client.join().map_err(|_| anyhow::anyhow!("a client broke"))??;
            came.push(told);
        }
        Ok((came, Instant::now()))
    })?;
    let acknowledged = |site: usize| {
        let told = came[site - 1].iter();
        told.filter(|(_, came)| matches!(came, Came::Acknowledged))
            .count()
    };
    for site in [2, 3] {
        let count = acknowledged(site);
        ensure!(
            count == WRITES,
            "Site{site} acknowledged {count} of {WRITES} writes while it had a majority"
        );
    }
    let refused = came[0]
        .iter()
        .filter(|(_, came)| matches!(came, Came::Refused))
        .count();
    ensure!(refused > 0, "Site1 refused nothing while it was cut off");
    sites.mesh.heal()?;
    let result = sites.until_equal(&ALL, NS, NAME, &[])?;
    let healed = cut.elapsed();
    check(&result, &came)?;
    ensure!(conflicts(sites)? == known, "there are conflicts");
    let strict = sites
        .cheops_kubectl(1, ["-n", NS, "get", NAME, "-o", "json", SCOPE])
        .ok()?;
    let read: Value = serde_json::from_str(&strict.stdout).context("a read under strong is no JSON")?;
    ensure!(
        read["data"] == result["data"],
        "a read under strong shows something else"
    );
    Ok(format!(
        "{} writes acknowledged while Site1 was cut off, {refused} refused there, all sites equal {:.1} s later, no conflict",
        acknowledged(1) + acknowledged(2) + acknowledged(3),
        healed.as_secs_f64()
    ))
}

/// Every acknowledged write is in it, and none that was refused.
fn check(result: &Value, came: &[Vec<(String, Came)>]) -> Result<()> {
    for (key, came) in came.iter().flatten() {
        let is_there = result["data"].get(key).is_some();
        match came {
            Came::Acknowledged => ensure!(is_there, "{key} was acknowledged and is not there: {result:#}"),
            Came::Refused => ensure!(!is_there, "{key} was refused and is there: {result:#}"),
            Came::Unknown => {}
        }
    }
    Ok(())
}

fn conflicts(sites: &Sites) -> Result<usize> {
    let counts: Vec<_> = ALL
        .into_iter()
        .map(|site| Ok(sites.conflicts(site)?.len()))
        .collect::<Result<_>>()?;
    Ok(counts.into_iter().sum())
}
