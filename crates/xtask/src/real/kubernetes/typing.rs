//! The ways to type a scope.

use std::{env, fs, os::unix::fs::symlink};

use anyhow::{Result, ensure};

use super::{Scenario, Sites};

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "typing",
    shows: "a scope as option, from the environment and by a kubectl plugin; exit codes, input and completion are kubectl's",
    play: typing,
}];

fn typing(sites: &mut Sites) -> Result<String> {
    const NS: &str = "typing";
    sites.namespace(NS)?;
    sites.direct(2, ["-n", NS, "create", "configmap", "there"]).ok()?;
    let get = ["-n", NS, "get", "configmap", "there", "-o", "name"];
    let everyway = [
        sites.cheops_kubectl(1, get).args(["--scope", "Site2"]),
        sites.cheops_kubectl(1, ["--scope=Site2"]).args(get),
        sites.cheops_kubectl(1, get).args(["--scope{Site2}"]),
        sites.cheops_kubectl(1, get).env("CHEOPS_SCOPE", "Site2"),
        // The option counts, whatever the environment says.
        sites
            .cheops_kubectl(1, get)
            .args(["--scope=kubernetes: Site2"])
            .env("CHEOPS_SCOPE", "Site1"),
        plugin(sites, &["cheops"])?.args(get).args(["--scope=Site2"]),
    ];
    let ways = everyway.len();
    for way in everyway {
        let got = way.ok()?;
        ensure!(got.said() == "configmap/there", "{got}");
    }
    // What fails, fails as it does without Cheops.
    for args in [
        &["-n", NS, "get", "configmap", "absent"][..],
        &["get", "nonsense"],
        &["nonsense"],
    ] {
        let direct = sites.direct(2, args).fails()?;
        let scoped = sites
            .cheops_kubectl(1, [args, &["--scope=Site2"]].concat())
            .fails()?;
        ensure!(
            (direct.code, &direct.stdout, &direct.stderr) == (scoped.code, &scoped.stdout, &scoped.stderr),
            "directly: {direct}\nwith a scope: {scoped}"
        );
    }
    let completion = ["__complete", "-n", NS, "get", "configmap", ""];
    let direct = sites.direct(2, completion).ok()?;
    let scoped = sites
        .cheops_kubectl(1, ["__complete", "--scope=Site2"])
        .args(&completion[1..])
        .ok()?;
    ensure!(
        direct.stdout == scoped.stdout && scoped.stdout.contains("there"),
        "directly: {direct}\nwith a scope: {scoped}"
    );
    Ok(format!("{ways} ways to say it; errors and completion as without"))
}

/// kubectl with a plugin: a link to the agent's program in `PATH`.
fn plugin(sites: &Sites, args: &[&str]) -> Result<crate::real::Run> {
    let dir = sites.dir.join("plugins");
    fs::create_dir(&dir)?;
    symlink(&sites.program, dir.join("kubectl-cheops"))?;
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([dir].into_iter().chain(env::split_paths(&path)))?;
    Ok(sites.kubectl(1, args).env("PATH", path))
}
