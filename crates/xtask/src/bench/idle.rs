//! What an agent has in memory while it does nothing: after its start, after some use, and with a thousand connections.

use std::{process::ExitCode, thread, time::Duration};

use anyhow::Result;
use serde::Serialize;

use super::{
    agent,
    client::Client,
    contender::{PLAIN_BODY, start_upstream},
    load::Load,
    proxy::{LOAD_CORE, PROXY_CORE},
    server::free_address,
    tools,
};
use crate::{command::AgentArgs, e2e::Memory, repo::Repo};

const MIB: f64 = 1024.0 * 1024.0;
const CONNECTIONS: usize = 1_000;
const START_MAX_MIB: f64 = 25.0;
const CONNECTIONS_MAX_MIB: f64 = 60.0;
/// Until what was freed has gone back.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long the agent is used
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when an aim is not reached
    #[arg(long)]
    check: bool,
}

/// In MiB.
#[derive(Serialize)]
struct Report {
    after_start: f64,
    after_start_max: f64,
    /// Connections that have each sent a request and stay open.
    with_connections: f64,
    with_connections_max: f64,
    /// After load on 64 connections, none of them open any more.
    after_use: f64,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    tools::ensure()?;
    let program = args.agent.program(repo)?;
    let dir = tempfile::tempdir()?;
    let (upstream, _application) = start_upstream(LOAD_CORE, dir.path(), PLAIN_BODY)?;
    let address = free_address()?;
    let server = agent::start(&program, PROXY_CORE, address, upstream, dir.path())?;
    let resident = || -> Result<f64> {
        thread::sleep(SETTLE);
        Ok(Memory::of(server.pid())?.resident_bytes as f64 / MIB)
    };
    let after_start = resident()?;
    let load = Load {
        core: LOAD_CORE,
        connections: 64,
        seconds: args.seconds,
        script: None,
        header: None,
    };
    load.run(address)?;
    let after_use = resident()?;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(address)?;
        let answer = client.send("GET", "/", &[], "")?;
        anyhow::ensure!(answer.status == 200, "answered with {}", answer.status);
        held.push(client);
    }
    let report = Report {
        after_start,
        after_start_max: START_MAX_MIB,
        with_connections: resident()?,
        with_connections_max: CONNECTIONS_MAX_MIB,
        after_use,
    };
    drop(held);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.show();
    }
    Ok(if report.holds() || !args.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Report {
    fn holds(&self) -> bool {
        self.after_start <= START_MAX_MIB && self.with_connections <= CONNECTIONS_MAX_MIB
    }

    fn show(&self) {
        let verdict = |holds| if holds { "reached" } else { "NOT reached" };
        println!(
            "after its start       {:>6.1} MiB; aim {START_MAX_MIB}: {}",
            self.after_start,
            verdict(self.after_start <= START_MAX_MIB)
        );
        println!("after some use        {:>6.1} MiB", self.after_use);
        println!(
            "{CONNECTIONS} connections      {:>6.1} MiB; aim {CONNECTIONS_MAX_MIB}: {}",
            self.with_connections,
            verdict(self.with_connections <= CONNECTIONS_MAX_MIB)
        );
    }
}
