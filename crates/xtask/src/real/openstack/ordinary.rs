//! Without a scope nobody notices the agents: ordinary commands of the `openstack` client, directly and through
//! them.

mod commands;
mod normal;

use std::{fmt::Write as _, fs};

use anyhow::{Context as _, Result, bail, ensure};

use super::{Scenario, Sites, service::Door, sites::COMPLETE};
use crate::real::Output;
use commands::COMMANDS;
use normal::Normal;

pub(super) const SCENARIOS: &[Scenario<Sites>] = &[Scenario {
    name: "ordinary-commands",
    shows: "the client prints the same, byte by byte, directly and through the agents, where no scope is given",
    play: ordinary_commands,
}];

const SITE: usize = COMPLETE[0];
/// What stands between the outputs of two commands.
const FENCE: &str = "=-=-= ";
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGEga2V5IGZvciBhIHRlc3QsIHVzZWQgYnkgbm9ib2R5 test\n";
/// The client cannot print: it has a shell do it.
const PRINT_FENCE: &str = "sed -n \"$1p\" fences | tee /dev/stderr\n";

/// One command and what it printed.
#[derive(PartialEq, Eq)]
struct Printed {
    command: String,
    stdout: String,
    stderr: String,
}

fn ordinary_commands(sites: &mut Sites) -> Result<String> {
    let dir = sites.dir.join("ordinary");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("key.pub"), KEY)?;
    fs::write(dir.join("fence"), PRINT_FENCE)?;
    fs::write(dir.join("fences"), fences())?;
    fs::write(dir.join("cirros.raw"), "not much of an image\n")?;
    sites.image(SITE, "debian", None)?;
    let normal = Normal::new(sites.addresses, SITE);
    let mut played = Vec::new();
    for door in [Door::Itself, Door::Public] {
        // One client for all commands: it reads them from its input.
        let run = sites
            .client(SITE, door)
            .dir(&dir)
            .input(script())
            .timeout(super::sites::SOON * 4);
        played.push(split(&normal, &run.ok()?)?);
    }
    let [direct, through] = &played[..] else {
        bail!("two runs");
    };
    let mut different = String::new();
    for (direct, through) in direct
        .iter()
        .zip(through)
        .filter(|(direct, through)| direct != through)
    {
        writeln!(
            different,
            "`{}` directly:\n{}{}through the agents:\n{}{}",
            direct.command, direct.stdout, direct.stderr, through.stdout, through.stderr
        )?;
    }
    if !different.is_empty() {
        bail!("not all commands print the same\n{different}");
    }
    let silent: Vec<_> = direct
        .iter()
        .filter(|printed| {
            !commands::is_silent(&printed.command)
                && printed.stdout.trim().is_empty()
                && printed.stderr.trim().is_empty()
        })
        .map(|printed| printed.command.as_str())
        .collect();
    ensure!(silent.is_empty(), "commands that printed nothing: {silent:?}");
    let refused = direct
        .iter()
        .filter(|printed| !printed.stderr.trim().is_empty())
        .count();
    Ok(format!(
        "{} commands, {refused} of them refused by OpenStack, all the same",
        direct.len()
    ))
}

fn fences() -> String {
    let lines: Vec<_> = COMMANDS
        .iter()
        .map(|command| format!("{FENCE}{command}\n"))
        .collect();
    lines.concat()
}

/// What the client reads: each command behind a fence on both outputs.
fn script() -> String {
    let commands = (1..).zip(COMMANDS);
    let lines: Vec<_> = commands
        .map(|(number, command)| format!("!sh fence {number}\n{command}\n"))
        .collect();
    lines.concat()
}

fn split(normal: &Normal, output: &Output) -> Result<Vec<Printed>> {
    let part = |text: &str, command: &str| -> Result<String> {
        let fence = format!("{FENCE}{command}\n");
        let (_, rest) = text
            .split_once(&fence)
            .with_context(|| format!("`{command}` did not run: {output}"))?;
        let end = rest.find(FENCE).unwrap_or(rest.len());
        Ok(normal.text(&rest[..end]))
    };
    COMMANDS
        .iter()
        .map(|command| {
            Ok(Printed {
                command: (*command).to_owned(),
                stdout: part(&output.stdout, command)?,
                stderr: part(&output.stderr, command)?,
            })
        })
        .collect()
}
