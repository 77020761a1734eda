//! What many replica sets cost a site: how long its agent takes to start, its memory, and what they add to
//! requests that have nothing to do with them.
//!
//! Two agents run side by side in front of the same service, one with an empty store, one with a store full
//! of settled sets of the kind `/orders`. Both get the same requests, taking turns within each round; only
//! ratios within a round are compared.

mod case;
mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Result, bail};

use self::{
    case::CASES,
    report::{Outcome, Report, Start},
};
use super::{
    agent,
    client::Client,
    contender::{Running, start_upstream},
    load::Load,
    proxy::{LOAD_CORE, PROXY_CORE, measure},
    report::Quartiles,
    server::free_address,
    tools,
};
use crate::{
    command::{build_agent, built, cargo, succeed},
    e2e::Memory,
    repo::Repo,
};

/// The service answers with the path that it was asked for, to show whose id reached it.
const BODY: &str =
    r#"{"id": "x", "path": "$request_uri", "name": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Replica sets in the store of one of the two agents
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    sets: u32,
    /// Paired rounds; each measures both agents once with every kind of request
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that each send one request after the other
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    connections: u64,
    /// Cargo profile to build the agent and the tool that fills the store with
    #[arg(long, default_value = "release")]
    profile: String,
    /// An agent that is built already
    #[arg(long)]
    agent: Option<PathBuf>,
    /// A tool that is built already
    #[arg(long)]
    fill: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when something is above its limit
    #[arg(long)]
    check: bool,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    tools::ensure()?;
    let program = match &args.agent {
        Some(path) => path.canonicalize()?,
        None => build_agent(repo, &args.profile)?,
    };
    let fill = match &args.fill {
        Some(path) => path.canonicalize()?,
        None => build_fill(repo, &args.profile)?,
    };
    let dir = tempfile::tempdir()?;
    let (upstream, _upstream_server) = start_upstream(LOAD_CORE, dir.path(), BODY)?;
    let start = |name: &str, sets: u32| -> Result<(Running, Start)> {
        let dir = dir.path().join(name);
        fs::create_dir(&dir)?;
        if sets > 0 {
            eprintln!("filling a store with {sets} sets");
            succeed(Command::new(&fill).arg(&dir).arg(sets.to_string()))?;
        }
        let address = free_address()?;
        let begin = Instant::now();
        let server = agent::start(&program, PROXY_CORE, address, upstream, &dir)?;
        let start = Start {
            seconds: begin.elapsed().as_secs_f64(),
            resident_bytes: Memory::of(server.pid())?.resident_bytes,
        };
        let header = None;
        Ok((
            Running {
                address,
                server,
                header,
            },
            start,
        ))
    };
    let (empty, _) = start("empty", 0)?;
    let (full, full_start) = start("full", args.sets)?;
    check_ids(&full, args.sets)?;
    let cases = measure_cases(args, dir.path(), &[empty, full])?;
    let report = Report::new(args.sets, full_start, cases);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(if report.holds() || !args.check {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn build_fill(repo: &Repo, profile: &str) -> Result<PathBuf> {
    eprintln!("building the tool that fills a store");
    succeed(cargo(&repo.root).args([
        "build",
        "--quiet",
        "--package",
        "cheops-node",
        "--example",
        "fill",
        "--profile",
        profile,
    ]))?;
    Ok(built(repo, profile)?.join("examples").join("fill"))
}

/// Both agents in every round with every kind of request, and the memory of the full one.
fn measure_cases(args: &Args, dir: &Path, agents: &[Running; 2]) -> Result<(Vec<Outcome>, u64)> {
    let scripts = CASES
        .iter()
        .enumerate()
        .map(|(at, case)| {
            let path = dir.join(format!("case{at}.lua"));
            fs::write(&path, case.script(args.sets))?;
            Ok(path)
        })
        .collect::<Result<Vec<_>>>()?;
    let load = |script| Load {
        core: LOAD_CORE,
        connections: args.connections as usize,
        seconds: args.seconds,
        script: Some(script),
        header: None,
    };
    for agent in agents {
        for script in &scripts {
            measure(
                agent,
                Load {
                    seconds: 1,
                    ..load(script)
                },
            )?;
        }
    }
    let mut cpu_us = vec![(Vec::new(), Vec::new()); CASES.len()];
    for round in 0..args.rounds as usize {
        eprint!("\rround {} of {}", round + 1, args.rounds);
        for (at, script) in scripts.iter().enumerate() {
            let mut of = [0.0; 2];
            for turn in [round % 2, (round + 1) % 2] {
                of[turn] = measure(&agents[turn], load(script))?.cpu_us;
            }
            cpu_us[at].0.push(of[0]);
            cpu_us[at].1.push(of[1]);
        }
    }
    eprintln!();
    let outcomes = CASES.iter().zip(cpu_us).map(|(case, (empty, full))| Outcome {
        what: case.what,
        ratio: Quartiles::of(
            empty
                .iter()
                .zip(&full)
                .map(|(empty, full)| full / empty)
                .collect(),
        ),
        empty_us: Quartiles::of(empty),
        full_us: Quartiles::of(full),
        limit: case.limit,
    });
    Ok((outcomes.collect(), Memory::of(agents[1].server.pid())?.peak_bytes))
}

/// The agent with the sets must know them, or the numbers mean nothing.
fn check_ids(full: &Running, sets: u32) -> Result<()> {
    let mut client = Client::connect(full.address)?;
    let mut reached = |id: &str| -> Result<String> {
        let answer = client.send("GET", &format!("/orders/{id}"), &[], "")?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    };
    let number = sets / 2;
    for (id, local) in [
        (case::meta_id(sets, number), number.to_string()),
        ("x1".into(), "x1".into()),
    ] {
        let body = reached(&id)?;
        if !body.contains(&format!(r#""path": "/orders/{local}""#)) {
            bail!("`{id}` should have reached the service as `{local}`; it answered {body}");
        }
    }
    Ok(())
}
