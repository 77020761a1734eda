//! The cost of a plain local request: the same load through each proxy in turn, round after round.
//!
//! The proxy under test has core 0 for itself; clients and upstream share core 1. All proxies stay
//! up during the whole run and those that are not measured are idle. A round measures each of them once,
//! in an order that rotates, so that what changes on the machine changes for all; only ratios within
//! a round are compared.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::{Result, bail};

use super::{
    contender::{Contender, PLAIN_BODY, Running, start_upstream, write},
    cpu::CpuTime,
    load::{Load, Seen},
    report::Report,
    tools,
};
use crate::{command::build_agent, repo::Repo};

pub(super) const PROXY_CORE: usize = 0;
pub(super) const LOAD_CORE: usize = 1;
const BASELINE: Contender = Contender::Nginx;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Paired rounds; each measures every proxy once
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that each send one request after the other
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    connections: u64,
    /// What each connection waits between an answer and its next request, so that all proxies get about the same rate
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pause_ms: u64,
    /// Proxies to compare; nginx is always among them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Contender::Nginx, Contender::Haproxy, Contender::Cheops])]
    only: Vec<Contender>,
    /// Cargo profile to build the agent with
    #[arg(long, default_value = "dist")]
    profile: String,
    /// An agent that is built already
    #[arg(long, conflicts_with = "profile")]
    agent: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when the agent's CPU time per request is more than this many times nginx's (median)
    #[arg(long, value_name = "RATIO")]
    check: Option<f64>,
}

/// One proxy in one round.
pub(super) struct Measure {
    pub(super) cpu_us: f64,
    pub(super) seen: Seen,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut contenders = vec![BASELINE];
    contenders.extend(args.only.iter().filter(|contender| **contender != BASELINE));
    contenders.dedup();
    if args.check.is_some() && !contenders.contains(&Contender::Cheops) {
        bail!("--check judges the agent, which --only leaves out");
    }
    if thread::available_parallelism()?.get() < 2 {
        bail!("the benchmark needs two cores: one for the proxy, one for its clients and its upstream");
    }
    tools::ensure()?;
    let agent = match &args.agent {
        Some(path) => path.canonicalize()?,
        None if contenders.iter().any(|contender| contender.is_agent()) => build_agent(repo, &args.profile)?,
        None => PathBuf::new(),
    };

    let dir = tempfile::tempdir()?;
    let (upstream, _upstream_server) = start_upstream(LOAD_CORE, dir.path(), PLAIN_BODY)?;
    let running = contenders
        .iter()
        .map(|contender| contender.start(PROXY_CORE, upstream, dir.path(), &agent))
        .collect::<Result<Vec<_>>>()?;
    let script = pause(args.pause_ms, dir.path())?;
    let load = Load {
        core: LOAD_CORE,
        connections: args.connections as usize,
        seconds: args.seconds,
        script: script.as_deref(),
        header: None,
    };

    for proxy in &running {
        measure(proxy, Load { seconds: 1, ..load })?;
    }
    let mut rounds = Vec::new();
    for round in 0..args.rounds as usize {
        eprint!("\rround {} of {}", round + 1, args.rounds);
        let mut measures: Vec<Option<Measure>> = running.iter().map(|_| None).collect();
        for turn in 0..running.len() {
            let at = (round + turn) % running.len();
            measures[at] = Some(measure(&running[at], load)?);
        }
        rounds.push(measures.into_iter().flatten().collect());
    }
    eprintln!();

    let report = Report::new(&contenders, &rounds, load, args.pause_ms);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    let Some(limit) = args.check else {
        return Ok(ExitCode::SUCCESS);
    };
    let ratio = report.cpu_ratio(Contender::Cheops);
    let holds = ratio <= limit;
    eprintln!(
        "the agent takes {ratio:.2} times nginx's CPU time per request, {} {limit}",
        if holds { "within" } else { "more than" }
    );
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A script of `wrk` in which every connection waits before it asks again.
fn pause(ms: u64, dir: &Path) -> Result<Option<PathBuf>> {
    if ms == 0 {
        return Ok(None);
    }
    let script = format!("function delay() return {ms} end\n");
    Ok(Some(write(dir, "pause.lua", &script)?.into()))
}

pub(super) fn measure(proxy: &Running, load: Load<'_>) -> Result<Measure> {
    let load = Load {
        header: proxy.header,
        ..load
    };
    let before = CpuTime::of(proxy.server.pid())?;
    let seen = load.run(proxy.address)?;
    let cpu_ns = CpuTime::of(proxy.server.pid())?.since(&before);
    Ok(Measure {
        cpu_us: cpu_ns as f64 / 1e3 / seen.requests as f64,
        seen,
    })
}
