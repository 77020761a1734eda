//! Without a scope nobody notices the agent: ordinary commands, directly and through it.

mod commands;
mod normal;

use std::fs;

use anyhow::{Result, bail};

use super::{Scenario, Sites};
use crate::{docs::words, real::Output};
use commands::{COMMANDS, FILES};
use normal::Normal;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "ordinary-commands",
    shows: "kubectl prints the same, byte by byte, directly and through the agent, where no scope is given",
    play: ordinary_commands,
}];

const NAMESPACE: &str = "ordinary";
/// All commands are played in this order twice, and leave nothing behind.
const SITE: usize = 1;

fn ordinary_commands(sites: &mut Sites) -> Result<String> {
    let dir = sites.dir.join("ordinary");
    fs::create_dir(&dir)?;
    for (name, text) in FILES {
        fs::write(dir.join(name), text)?;
    }
    sites.namespace_for_pods(NAMESPACE)?;
    let direct = play(sites, &|args| sites.direct(SITE, args).dir(&dir).output())?;
    let through = play(sites, &|args| sites.kubectl(SITE, args).dir(&dir).output())?;
    let mut different = Vec::new();
    for (direct, through) in direct.iter().zip(&through) {
        if direct != through {
            different.push(format!("directly: {direct}\nthrough the agent: {through}"));
        }
    }
    if !different.is_empty() {
        bail!(
            "{} of {} commands differ\n{}",
            different.len(),
            direct.len(),
            different.join("\n\n")
        );
    }
    let failed = direct.iter().filter(|output| !output.is_ok()).count();
    Ok(format!(
        "{} commands, {failed} of them refused by the API, all the same",
        direct.len()
    ))
}

/// What every command does, without what is never the same twice.
fn play(sites: &Sites, run: &dyn Fn(Vec<String>) -> Result<Output>) -> Result<Vec<Output>> {
    let normal = Normal::new([true, false].map(|agent| sites.server(SITE, agent)));
    let mut outputs = Vec::new();
    for command in COMMANDS {
        let Some(mut args) = words(command) else {
            bail!("`{command}` is no simple command");
        };
        // In front, so that what stands behind `--` stays there.
        args.splice(0..0, ["-n".to_owned(), NAMESPACE.to_owned()]);
        outputs.push(normal.output(run(args)?));
    }
    // What controllers make is taken away by controllers, after the last command.
    sites.until("nothing is left of the commands", || {
        let left = sites
            .direct(SITE, ["-n", NAMESPACE, "get", "all,cm,secrets", "-o", "name"])
            .ok()?;
        let own = |line: &&str| !line.contains("kube-root-ca") && !line.contains("default-token");
        Ok((left.stdout.lines().filter(own).count() == 0).then_some(()))
    })?;
    Ok(outputs)
}
