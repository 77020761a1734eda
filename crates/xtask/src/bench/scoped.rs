//! Scoped load at full rate for as long as one likes: nothing may be refused, and memory must stay flat.
//!
//! A demo is started, and its first site gets all the load. Connections of four addresses send reads, reads that call a second service, and
//! writes, one after the other, all with a scope: first with one, then with a hundred thousand different ones.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde::Serialize;

use super::client::Client;
use crate::{
    command::AgentArgs,
    e2e::{Demo, Memory},
    repo::Repo,
};

const MIB: u64 = 1024 * 1024;
const RESIDENT_MAX_BYTES: u64 = 60 * MIB;
const SCOPES: [u64; 2] = [1, 100_000];
const ADDRESSES: u64 = 4;
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Length of the whole load, half of it with each number of scopes
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(2..=86_400))]
    seconds: u64,
    /// Connections that each send one request after the other
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1024))]
    connections: u64,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object per number of scopes
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    scopes: u64,
    requests: u64,
    per_second: f64,
    /// Answered with 503.
    refused: u64,
    resident_start_bytes: u64,
    resident_max_bytes: u64,
    resident_end_bytes: u64,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let program = args.agent.program(repo)?;
    let demo = Demo::start(&program, 0)?;
    let mut holds = true;
    for scopes in SCOPES {
        let line = load(&demo, scopes, args)?;
        if args.json {
            println!("{}", serde_json::to_string(&line)?);
        } else {
            println!("{line}");
        }
        holds &= line.holds();
    }
    demo.stop()?;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn load(demo: &Demo, scopes: u64, args: &Args) -> Result<Line> {
    let Some(agent) = demo.agents.first() else {
        bail!("the demo has no sites");
    };
    let counts = Counts::default();
    let resident = || Memory::of(agent.pid).map(|memory| memory.resident_bytes);
    let start_bytes = resident()?;
    let mut max_bytes = start_bytes;
    let start = Instant::now();
    let until = start + Duration::from_secs(args.seconds / SCOPES.len() as u64);
    thread::scope(|threads| -> Result<()> {
        let clients = (0..args.connections).map(|number| {
            let caller = Caller {
                a: demo.entry_a,
                b: demo.entry,
                number,
                scopes,
            };
            let counts = &counts;
            threads.spawn(move || {
                let sent = caller.send_until(until, counts);
                counts.stop.fetch_or(sent.is_err(), Relaxed);
                sent
            })
        });
        let clients: Vec<_> = clients.collect();
        while Instant::now() < until && !counts.stop.load(Relaxed) {
            thread::sleep(SAMPLE_EVERY);
            max_bytes = max_bytes.max(resident()?);
        }
        for client in clients {
            match client.join() {
                Ok(sent) => sent?,
                Err(_) => bail!("a connection's thread panicked"),
            }
        }
        Ok(())
    })?;
    let requests = counts.answered.load(Relaxed);
    Ok(Line {
        scopes,
        requests,
        per_second: requests as f64 / start.elapsed().as_secs_f64(),
        refused: counts.refused.load(Relaxed),
        resident_start_bytes: start_bytes,
        resident_max_bytes: max_bytes,
        resident_end_bytes: resident()?,
    })
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    refused: AtomicU64,
    /// A connection failed.
    stop: AtomicBool,
}

/// One connection to each service.
struct Caller {
    a: SocketAddr,
    b: SocketAddr,
    number: u64,
    scopes: u64,
}

impl Caller {
    fn send_until(&self, until: Instant, counts: &Counts) -> Result<()> {
        let from = Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + (self.number % ADDRESSES) as u32);
        let (mut a, mut b) = (
            Client::connect_from(from, self.a)?,
            Client::connect_from(from, self.b)?,
        );
        for turn in 0_u64.. {
            if Instant::now() >= until || counts.stop.load(Relaxed) {
                break;
            }
            // Spread over all of them, the same for each run.
            let chosen = (self.number + turn * 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.scopes;
            let scope = format!("B: around(site1, {}us)", chosen + 1);
            let scope = [("X-Scope", scope.as_str())];
            let answer = match turn % 4 {
                0 => a.send("GET", "/hello", &scope, "")?,
                1 => b.send("POST", "/upload", &scope, r#"{"name":"bolt"}"#)?,
                _ => b.send("GET", "/string", &scope, "")?,
            };
            counts.answered.fetch_add(1, Relaxed);
            match answer.status {
                200..=299 => {}
                503 => drop(counts.refused.fetch_add(1, Relaxed)),
                status => bail!(
                    "answered with {status}: {}",
                    String::from_utf8_lossy(&answer.body)
                ),
            }
        }
        Ok(())
    }
}

impl Line {
    fn holds(&self) -> bool {
        self.requests > 0 && self.refused == 0 && self.resident_max_bytes < RESIDENT_MAX_BYTES
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        write!(
            f,
            "{:>6} scopes: {} requests, {:.0} per second, {} refused; resident {:.1} MiB at the start, {:.1} at most, {:.1} at the end: {}",
            self.scopes,
            self.requests,
            self.per_second,
            self.refused,
            mib(self.resident_start_bytes),
            mib(self.resident_max_bytes),
            mib(self.resident_end_bytes),
            if self.holds() { "held" } else { "NOT HELD" }
        )
    }
}
