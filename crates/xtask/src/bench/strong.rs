//! Strongly consistent writes at sites far apart, beside puts into etcd over links as long.
//!
//! Five sites and five members of etcd run side by side on one machine and one disk, all links of the same length. In
//! each round one writer writes through the site that decides and through another one, then many write at once, and
//! the same is put into etcd, taking turns, so that what changes on the machine changes for both. Every writer
//! replaces a document, or a key, of its own.

mod cheops;
mod failover;
mod report;

use std::{
    fs::File,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use self::{
    cheops::{Cheops, SAMPLES, Writers, median_ms, scope},
    report::{Given, Report, Round, Side},
};
use super::{
    client::Client,
    cpu::CpuTime,
    writers::{Run, etcd, load},
};
use crate::{
    command::AgentArgs,
    repo::Repo,
    trouble::{Mesh, Sites},
};

const SITES: usize = 5;
/// For a new leader, and for one that goes where the writes come from.
const SETTLE_MAX: Duration = Duration::from_secs(15);
/// As much as an entry of a log.
const SYNCED_BYTES: usize = 512;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Writers at the same time, each of which waits for its answer before it writes again
    #[arg(long, default_value_t = 64)]
    writers: u16,
    /// From one site to another and back
    #[arg(long, value_name = "MS", default_value_t = 50)]
    rtt_ms: u16,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long one writer, and then many, write in a round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often the agent of the site that decides is killed, after the rounds
    #[arg(long, default_value_t = 3)]
    failovers: u32,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when a write takes longer than two round trips, two synced writes and the application, times 1.2 (through
    /// another site one round trip more), when many writers reach less than 0.4 of etcd's rate, or when some writer waits more
    /// than 3 s after a kill
    #[arg(long)]
    check: bool,
    /// Under `&` in the place of `strong(...)`, to see that the measurement itself works
    #[arg(long, hide = true)]
    eventual: bool,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    let one_way = Duration::from_millis(u64::from(args.rtt_ms)) / 2;
    let dir = tempfile::tempdir()?;
    let mesh = Mesh {
        program: &program,
        library: None,
        dir: dir.path(),
        sites: SITES,
        limits: &[],
        delay: &|_, _| one_way,
    };
    let etcd = etcd::Etcd::start(SITES, one_way)?;
    let sites = Sites::start(&mesh)?;
    let mut cheops = Cheops {
        writers: Writers {
            public: sites.public(),
            scope: scope(SITES, args.eventual),
        },
        sites,
    };
    cheops.make(args.writers)?;
    let synced_ms = synced_ms(dir.path())?;
    let application_ms = cheops.application_ms()?;
    let mut rounds = Vec::new();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        // Whoever comes first meets another machine than who comes second.
        let first = (round % 2 == 0).then(|| put(&etcd, args)).transpose()?;
        let side = write(&cheops, args)?;
        let etcd = first.map_or_else(|| put(&etcd, args), Ok)?;
        rounds.push(Round { cheops: side, etcd });
    }
    // Its members would compete for the machine.
    drop(etcd);
    let mut failovers = Vec::new();
    for number in 1..=args.failovers {
        eprintln!("fail-over {number} of {}", args.failovers);
        failovers.push(failover::play(&mut cheops)?);
    }
    let given = Given {
        rtt_ms: args.rtt_ms,
        writers: args.writers,
        synced_ms,
        application_ms,
    };
    let report = Report::new(&rounds, &failovers, given);
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

/// One round of the sites.
fn write(cheops: &Cheops, args: &Args) -> Result<Side> {
    let mut home = Client::connect(cheops.writers.public[0])?;
    let mut away = Client::connect(cheops.writers.public[1])?;
    let start = Instant::now();
    // Who decides goes where the writes come from; else all that follows is through another site.
    while cheops.writers.put(&mut home, 0)?.1 != Some(0) && start.elapsed() < SETTLE_MAX {}
    let (mut own, mut other) = (Vec::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(args.seconds);
    // Seldom through the other site, so that it does not become the one that decides.
    for turn in 0_u64.. {
        if Instant::now() >= until {
            break;
        }
        let (client, through) = if turn % 4 == 3 {
            (&mut away, 1)
        } else {
            (&mut home, 0)
        };
        let (took, decided) = cheops.writers.put(client, 0)?;
        let times = if decided == Some(through) {
            &mut own
        } else {
            &mut other
        };
        times.push(took);
    }
    let pids: Vec<_> = (0..SITES).filter_map(|site| cheops.sites.pid(site)).collect();
    let (many, cpu_us) = many(&pids, args, cheops.writers.public[0], |client, number| {
        Ok(cheops.writers.put(client, writer_of(number, args.writers))?.0)
    })?;
    Ok(Side {
        own_ms: median_ms(own),
        other_ms: median_ms(other),
        many,
        cpu_us,
    })
}

/// One round of etcd.
fn put(etcd: &etcd::Etcd, args: &Args) -> Result<Side> {
    let alone = |address: SocketAddr| {
        let mut client = Client::connect(address)?;
        let until = Instant::now() + Duration::from_secs(args.seconds) / 2;
        let mut times = Vec::new();
        while Instant::now() < until {
            times.push(etcd::put(&mut client, 0)?);
        }
        Ok::<_, anyhow::Error>(median_ms(times))
    };
    let other = etcd.others.first().context("etcd has more than one member")?;
    let (own_ms, other_ms) = (alone(etcd.leader)?, alone(*other)?);
    let (many, cpu_us) = many(&etcd.pids(), args, etcd.leader, |client, number| {
        etcd::put(client, writer_of(number, args.writers))
    })?;
    Ok(Side {
        own_ms,
        other_ms,
        many,
        cpu_us,
    })
}

/// Many writers at once, and the CPU that all these processes took for a write.
fn many(
    pids: &[u32],
    args: &Args,
    target: SocketAddr,
    write: impl Fn(&mut Client, u64) -> Result<Duration> + Sync,
) -> Result<(Run, f64)> {
    let cpu = || {
        pids.iter()
            .map(|pid| CpuTime::of(*pid))
            .collect::<Result<Vec<_>>>()
    };
    let before = cpu()?;
    let (took, elapsed) = load(target, args.writers, args.seconds, write)?;
    let after = cpu()?;
    let ran_ns: u64 = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after.since(before))
        .sum();
    let cpu_us = ran_ns as f64 / 1e3 / took.len() as f64;
    Ok((Run::of(took, elapsed, Vec::new()), cpu_us))
}

/// The writer of a write by the write's number; the first of all connections has none.
fn writer_of(number: u64, writers: u16) -> u64 {
    (number >> 32) % u64::from(writers)
}

/// What this disk takes to keep a few bytes more.
fn synced_ms(dir: &Path) -> Result<f64> {
    let mut file = File::create(dir.join("synced"))?;
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        file.write_all(&[7; SYNCED_BYTES])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    median_ms(times).context("there are samples")
}
