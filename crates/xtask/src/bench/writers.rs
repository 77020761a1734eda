//! Replicated creates by many writers at once, beside puts into etcd.
//!
//! A demo of two sites and a cluster of three members of etcd run side by side on one machine and one disk. In each
//! round every number of writers creates resources at both sites through the first one, and puts as many bytes into
//! the cluster's leader, taking turns, so that what changes on the machine changes for both. Both answer when a write
//! is synced; etcd at two members, Cheops at the accepting site.

pub(super) mod etcd;
mod report;

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use self::{
    etcd::Etcd,
    report::{Figures, Report},
};
use super::{client::Client, cpu::CpuTime, create};
use crate::{command::AgentArgs, e2e::Demo, repo::Repo};

const SCOPE: &str = "site1 & site2";
/// Of etcd.
const MEMBERS: usize = 3;
/// Rounds begin when both agents have taken less than a fiftieth of this since they were last looked at.
const CALM: Duration = Duration::from_millis(200);
const CALM_TRIES: u32 = 50;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Writers at the same time, each of which waits for its answer before it writes again
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256])]
    writers: Vec<u16>,
    /// Rounds, each with every number of writers
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each number of writers writes in a round
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Without etcd beside it
    #[arg(long)]
    alone: bool,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also write what is found to this file, as JSON, and beside it as Markdown, with what machine it was
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Fail when 64 writers reach less than 0.6 of etcd's rate, or an agent takes more than 160 µs for a create
    #[arg(long)]
    check: bool,
}

/// What one number of writers did in one round.
pub(super) struct Run {
    pub(super) per_second: f64,
    pub(super) median_ms: f64,
    /// Of the accepting and of the other agent, per create; nothing where that is not measured.
    pub(super) cpu_us: Vec<f64>,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    let etcd = if args.alone {
        None
    } else {
        Some(Etcd::start(MEMBERS, Duration::ZERO)?)
    };
    let demo = Demo::start(&program, 0)?;
    let mut figures: Vec<_> = args.writers.iter().map(|writers| Figures::of(*writers)).collect();
    for round in 1..=args.rounds {
        for figures in &mut figures {
            let writers = figures.writers;
            eprintln!("round {round} of {}, {writers} writers", args.rounds);
            // Whoever comes first meets another machine than who comes second.
            if round % 2 == 0
                && let Some(etcd) = &etcd
            {
                figures.etcd.push(put(etcd, writers, args.seconds)?);
            }
            figures.cheops.push(creates(&demo, writers, args.seconds)?);
            if round % 2 == 1
                && let Some(etcd) = &etcd
            {
                figures.etcd.push(put(etcd, writers, args.seconds)?);
            }
        }
    }
    demo.stop()?;
    let report = Report::new(&program, &figures, args.rounds, args.seconds);
    if let Some(out) = &args.out {
        report.write(out)?;
    }
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

fn creates(demo: &Demo, writers: u16, seconds: u64) -> Result<Run> {
    let pids: Vec<_> = demo.agents.iter().map(|agent| agent.pid).collect();
    calm(&pids)?;
    let read = || {
        pids.iter()
            .map(|pid| CpuTime::of(*pid))
            .collect::<Result<Vec<_>>>()
    };
    let before = read()?;
    let (took, elapsed) = load(demo.entry, writers, seconds, |client, _| {
        create::create(client, Some(SCOPE))
    })?;
    // What the agents still have to do for these creates belongs to them.
    calm(&pids)?;
    let after = read()?;
    let ran_ns = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after.since(before));
    let cpu_us = ran_ns.map(|ns| ns as f64 / 1e3 / took.len() as f64).collect();
    Ok(Run::of(took, elapsed, cpu_us))
}

fn put(etcd: &Etcd, writers: u16, seconds: u64) -> Result<Run> {
    let (took, elapsed) = load(etcd.leader, writers, seconds, |client, number| {
        etcd::put(client, number)
    })?;
    Ok(Run::of(took, elapsed, Vec::new()))
}

impl Run {
    pub(super) fn of(mut took: Vec<Duration>, elapsed: Duration, cpu_us: Vec<f64>) -> Self {
        took.sort_unstable();
        let median = took.get(took.len() / 2).copied().unwrap_or_default();
        Self {
            per_second: took.len() as f64 / elapsed.as_secs_f64(),
            median_ms: median.as_secs_f64() * 1e3,
            cpu_us,
        }
    }
}

/// How long each write took, and how long all of them. `write` is told a number that no other write has; its
/// upper half is the writer's.
pub(super) fn load(
    target: SocketAddr,
    writers: u16,
    seconds: u64,
    write: impl Fn(&mut Client, u64) -> Result<Duration> + Sync,
) -> Result<(Vec<Duration>, Duration)> {
    let clients = (0..writers).map(|_| {
        let mut client = Client::connect(target)?;
        // Opens every connection.
        write(&mut client, u64::MAX)?;
        Ok(client)
    });
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let until = start + Duration::from_secs(seconds);
    let has_failed = AtomicBool::new(false);
    let took = thread::scope(|threads| -> Result<Vec<Duration>> {
        let (write, has_failed) = (&write, &has_failed);
        let running = clients.into_iter().zip(0_u64..).map(|(mut client, writer)| {
            threads.spawn(move || -> Result<Vec<Duration>> {
                let mut took = Vec::new();
                for turn in 0_u64.. {
                    if Instant::now() >= until || has_failed.load(Relaxed) {
                        break;
                    }
                    let written = write(&mut client, writer << 32 | turn);
                    has_failed.fetch_or(written.is_err(), Relaxed);
                    took.push(written?);
                }
                Ok(took)
            })
        });
        let running: Vec<_> = running.collect();
        let mut took = Vec::new();
        for writer in running {
            match writer.join() {
                Ok(times) => took.extend(times?),
                Err(_) => bail!("a writer's thread panicked"),
            }
        }
        Ok(took)
    })?;
    if took.is_empty() {
        bail!("nothing was written");
    }
    Ok((took, start.elapsed()))
}

/// Waits until the agents have nothing more to do.
fn calm(pids: &[u32]) -> Result<()> {
    let read = || {
        pids.iter()
            .map(|pid| CpuTime::of(*pid))
            .collect::<Result<Vec<_>>>()
    };
    let mut before = read()?;
    for _ in 0..CALM_TRIES {
        thread::sleep(CALM);
        let after = read()?;
        let most = after
            .iter()
            .zip(&before)
            .map(|(after, before)| after.since(before));
        if u128::from(most.max().unwrap_or(0)) < CALM.as_nanos() / 50 {
            return Ok(());
        }
        before = after;
    }
    Err(anyhow::anyhow!(
        "an agent is still at work {} s after the last create",
        (CALM * CALM_TRIES).as_secs()
    ))
    .context("the round cannot be measured")
}
