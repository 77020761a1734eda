//! What a forward to another site costs: the same requests through two agents, through two HAProxies, both pairs with TLS
//! between them, and straight to the application, taking turns.
//!
//! Each site has a core for itself: client and near proxy share one, far proxy and application the other. There is no
//! distance between them, so the round trip of the link counts as nothing.

mod application;
mod big;
mod pairs;

use std::{fs, path::Path, process::ExitCode, thread};

use anyhow::{Result, bail};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Serialize;

use self::{big::Direction, pairs::Way};
use super::{
    contender::write,
    cpu::CpuTime,
    load::{Load, Seen},
    report::Quartiles,
    tools,
};
use crate::{command::AgentArgs, repo::Repo};

const NEAR_CORE: usize = 0;
const FAR_CORE: usize = 1;
const BIG_BYTES: usize = 64 * 1024 * 1024;
/// What a forward may take longer than the application asked straight, beside the round trip.
const MORE_MAX_US: f64 = 300.0;
/// The rate of a long body, in relation to two HAProxies.
const RATE_MIN: f64 = 0.9;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Paired rounds; each measures every way once
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one measurement of small requests in seconds
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that each send one request after the other, where CPU time is measured
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    connections: u64,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when an aim is not reached
    #[arg(long)]
    check: bool,
}

/// One way in one round.
struct Measure {
    /// One request at a time, with pauses.
    alone_us: f64,
    /// CPU time per request of the near and the far proxy.
    cpu_us: [f64; 2],
    down_mb_s: f64,
    up_mb_s: f64,
}

#[derive(Serialize)]
struct Report {
    rounds: usize,
    ways: Vec<Line>,
    /// Of the median request through the agents, above one straight to the application.
    more_us: Quartiles,
    more_max_us: f64,
    /// In relation to the two HAProxies.
    down: Quartiles,
    up: Quartiles,
    rate_min: f64,
}

#[derive(Serialize)]
struct Line {
    way: &'static str,
    alone_us: Quartiles,
    near_cpu_us: Quartiles,
    far_cpu_us: Quartiles,
    down_mb_s: Quartiles,
    up_mb_s: Quartiles,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    if thread::available_parallelism()?.get() < 2 {
        bail!("the benchmark needs two cores: one for each site");
    }
    tools::ensure()?;
    let program = args.agent.program(repo)?;
    let dir = tempfile::tempdir()?;
    let mesh = dir.path().join("mesh");
    fs::create_dir(&mesh)?;
    pairs::certify(&program, &mesh)?;
    let application = application::start(FAR_CORE)?;
    let ways = [
        pairs::straight(application),
        pairs::haproxies(application, &mesh, dir.path())?,
        pairs::agents(&program, application, &mesh)?,
    ];
    // The client of long bodies is this thread.
    pin(NEAR_CORE)?;
    let script = write(dir.path(), "pause.lua", "function delay() return 5 end\n")?;
    let mut rounds = Vec::new();
    // The first round opens connections and fills caches; it does not count.
    for round in 0..=args.rounds as usize {
        eprint!("\rround {round} of {}", args.rounds);
        let mut measures: [Option<Measure>; 3] = [None, None, None];
        for turn in 0..ways.len() {
            let at = (round + turn) % ways.len();
            measures[at] = Some(measure(&ways[at], args, Path::new(&script))?);
        }
        let [Some(straight), Some(haproxies), Some(agents)] = measures else {
            bail!("a way was not measured");
        };
        if round > 0 {
            rounds.push([straight, haproxies, agents]);
        }
    }
    eprintln!();
    let report = Report::new(&ways, &rounds);
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

/// This thread, and those that it starts, run on one core.
fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

fn measure(way: &Way, args: &Args, pauses: &Path) -> Result<Measure> {
    let header = way.header.map(|(name, value)| format!("{name}: {value}"));
    let alone = Load {
        core: NEAR_CORE,
        connections: 1,
        seconds: args.seconds,
        script: Some(pauses),
        header: header.as_deref(),
    };
    let many = Load {
        connections: args.connections as usize,
        script: None,
        ..alone
    };
    let alone = alone.run(way.address)?;
    let (cpu_us, _) = cpu(way, || many.run(way.address))?;
    Ok(Measure {
        alone_us: alone.p50_us,
        cpu_us,
        down_mb_s: big::rate(way, Direction::Down)?,
        up_mb_s: big::rate(way, Direction::Up)?,
    })
}

fn cpu(way: &Way, run: impl FnOnce() -> Result<Seen>) -> Result<([f64; 2], Seen)> {
    let Some(proxies) = &way.proxies else {
        return Ok(([0.0; 2], run()?));
    };
    let read = || -> Result<[CpuTime; 2]> {
        let [near, far] = proxies;
        Ok([CpuTime::of(near.pid())?, CpuTime::of(far.pid())?])
    };
    let before = read()?;
    let seen = run()?;
    let [near, far] = read()?;
    let each = |after: &CpuTime, before: &CpuTime| after.since(before) as f64 / 1e3 / seen.requests as f64;
    Ok(([each(&near, &before[0]), each(&far, &before[1])], seen))
}

impl Report {
    fn new(ways: &[Way; 3], rounds: &[[Measure; 3]]) -> Self {
        let figure = |at: usize, quantity: fn(&Measure) -> f64| {
            Quartiles::of(rounds.iter().map(|round| quantity(&round[at])).collect())
        };
        let beside = |quantity: fn(&Measure) -> f64| {
            let ratio = |[_, haproxies, agents]: &[Measure; 3]| quantity(agents) / quantity(haproxies);
            Quartiles::of(rounds.iter().map(ratio).collect())
        };
        let more = |[straight, _, agents]: &[Measure; 3]| agents.alone_us - straight.alone_us;
        Self {
            rounds: rounds.len(),
            ways: ways
                .iter()
                .enumerate()
                .map(|(at, way)| Line {
                    way: way.name,
                    alone_us: figure(at, |m| m.alone_us),
                    near_cpu_us: figure(at, |m| m.cpu_us[0]),
                    far_cpu_us: figure(at, |m| m.cpu_us[1]),
                    down_mb_s: figure(at, |m| m.down_mb_s),
                    up_mb_s: figure(at, |m| m.up_mb_s),
                })
                .collect(),
            more_us: Quartiles::of(rounds.iter().map(more).collect()),
            more_max_us: MORE_MAX_US,
            down: beside(|m| m.down_mb_s),
            up: beside(|m| m.up_mb_s),
            rate_min: RATE_MIN,
        }
    }

    fn holds(&self) -> bool {
        self.more_us.median <= MORE_MAX_US && self.down.median >= RATE_MIN && self.up.median >= RATE_MIN
    }

    fn show(&self) {
        println!("{} paired rounds; medians", self.rounds);
        println!("                 alone    CPU near    CPU far    64 MiB down    64 MiB up");
        for line in &self.ways {
            println!(
                "{:<12}{:>7.0} µs{:>9.1} µs{:>8.1} µs{:>10.0} MB/s{:>8.0} MB/s",
                line.way,
                line.alone_us.median,
                line.near_cpu_us.median,
                line.far_cpu_us.median,
                line.down_mb_s.median,
                line.up_mb_s.median
            );
        }
        let verdict = |holds| if holds { "reached" } else { "NOT reached" };
        println!(
            "a forward takes {:.0} µs more than asking straight; aim {MORE_MAX_US}: {}",
            self.more_us.median,
            verdict(self.more_us.median <= MORE_MAX_US)
        );
        for (what, Quartiles { q1, median, q3 }) in [("down", self.down), ("up", self.up)] {
            println!(
                "64 MiB {what}: {median:.2} ({q1:.2}–{q3:.2}) times two HAProxies' rate; aim {RATE_MIN}: {}",
                verdict(median >= RATE_MIN)
            );
        }
    }
}
