//! What a flood of requests by one caller leaves to others: with a scope on each request, and without, taking turns.
//!
//! Both floods send equally often, so that what differs is the scope: a hundred thousand of them, one after the other. Beside
//! them another caller asks for something plain, and a third makes replicated resources, each from an address of its own.

use std::{
    net::Ipv4Addr,
    path::Path,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use anyhow::{Result, bail};
use serde::Serialize;

use super::{client::Client, contender::write, load::Load, proxy::LOAD_CORE, report::Quartiles, tools};
use crate::{command::AgentArgs, e2e::Demo, repo::Repo};

/// The flood comes from 127.0.0.1.
const PLAIN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const REPLICATED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// What may be lost between two turns of the same flood on a machine that others use too.
const LEAST: f64 = 0.95;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Paired rounds, each with a flood of either kind
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one flood in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections of the flood
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    connections: u64,
    /// What each of them waits between two requests
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pause_ms: u64,
    #[command(flatten)]
    agent: AgentArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail when others get less beside scoped requests
    #[arg(long)]
    check: bool,
}

/// What happened beside one flood, per second.
#[derive(Clone, Copy)]
struct Beside {
    flood: f64,
    plain: f64,
    replicated: f64,
}

#[derive(Serialize)]
struct Report {
    flood_per_s: [Quartiles; 2],
    plain_per_s: [Quartiles; 2],
    replicated_per_s: [Quartiles; 2],
    /// Beside scoped requests, in relation to the flood without scopes in the same round.
    plain_ratio: Quartiles,
    replicated_ratio: Quartiles,
    least: f64,
}

pub(super) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    tools::ensure()?;
    let program = args.agent.program(repo)?;
    let dir = tempfile::tempdir()?;
    let scripts = [
        script(dir.path(), "plain.lua", "X-Nothing", args.pause_ms)?,
        script(dir.path(), "scoped.lua", "X-Scope", args.pause_ms)?,
    ];
    let demo = Demo::start(&program, 0)?;
    let mut rounds = Vec::new();
    // The first round opens connections and fills caches; it does not count.
    for round in 0..=args.rounds as usize {
        eprint!("\rround {round} of {}", args.rounds);
        let mut both = [None; 2];
        for turn in 0..2 {
            let at = (round + turn) % 2;
            both[at] = Some(beside(&demo, Path::new(&scripts[at]), args)?);
        }
        if let (true, [Some(without), Some(with)]) = (round > 0, both) {
            rounds.push([without, with]);
        }
    }
    eprintln!();
    demo.stop()?;
    let report = Report::new(&rounds);
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

/// A script of `wrk` that gives each request another value of a header.
fn script(dir: &Path, name: &str, header: &str, pause_ms: u64) -> Result<String> {
    let text = format!(
        "local turn = 0
function request()
  turn = turn % 100000 + 1
  wrk.headers[\"{header}\"] = \"B: around(site1, \" .. turn .. \"us)\"
  return wrk.format(\"GET\", \"/string\")
end
function delay() return {pause_ms} end
"
    );
    write(dir, name, &text)
}

fn beside(demo: &Demo, script: &Path, args: &Args) -> Result<Beside> {
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        let plain = threads.spawn(|| {
            let send = |client: &mut Client| client.send("GET", "/string", &[], "");
            repeat(demo, PLAIN, 200, &is_over, send)
        });
        let replicated = threads.spawn(|| {
            let scope = [("X-Scope", "site1 & site2")];
            let send = |client: &mut Client| client.send("POST", "/items", &scope, r#"{"name":"bolt"}"#);
            repeat(demo, REPLICATED, 201, &is_over, send)
        });
        let load = Load {
            core: LOAD_CORE,
            connections: args.connections as usize,
            seconds: args.seconds,
            script: Some(script),
            header: None,
        };
        let flood = load.run(demo.entry);
        is_over.store(true, Relaxed);
        let count = |joined: thread::Result<Result<u64>>| match joined {
            Ok(count) => count,
            Err(_) => bail!("a caller's thread panicked"),
        };
        let (plain, replicated) = (count(plain.join())?, count(replicated.join())?);
        let seconds = args.seconds as f64;
        Ok(Beside {
            flood: flood?.requests_per_s,
            plain: plain as f64 / seconds,
            replicated: replicated as f64 / seconds,
        })
    })
}

/// How often one caller was answered, one request after the other.
fn repeat(
    demo: &Demo,
    from: Ipv4Addr,
    wanted: u16,
    is_over: &AtomicBool,
    send: impl Fn(&mut Client) -> Result<super::client::Answer>,
) -> Result<u64> {
    let mut client = Client::connect_from(from, demo.entry)?;
    let mut count = 0;
    while !is_over.load(Relaxed) {
        let answer = send(&mut client)?;
        if answer.status != wanted {
            let text = String::from_utf8_lossy(&answer.body);
            bail!("answered with {}: {text}", answer.status);
        }
        count += 1;
    }
    Ok(count)
}

impl Report {
    fn new(rounds: &[[Beside; 2]]) -> Self {
        let both = |quantity: fn(&Beside) -> f64| {
            [0, 1].map(|at| Quartiles::of(rounds.iter().map(|round| quantity(&round[at])).collect()))
        };
        let ratio = |quantity: fn(&Beside) -> f64| {
            Quartiles::of(
                rounds
                    .iter()
                    .map(|[without, with]| quantity(with) / quantity(without))
                    .collect(),
            )
        };
        Self {
            flood_per_s: both(|beside| beside.flood),
            plain_per_s: both(|beside| beside.plain),
            replicated_per_s: both(|beside| beside.replicated),
            plain_ratio: ratio(|beside| beside.plain),
            replicated_ratio: ratio(|beside| beside.replicated),
            least: LEAST,
        }
    }

    fn holds(&self) -> bool {
        self.plain_ratio.median >= LEAST && self.replicated_ratio.median >= LEAST
    }

    fn show(&self) {
        println!("medians per second      without scopes   with scopes   ratio (quartiles)");
        let [without, with] = self.flood_per_s;
        println!("the flood{:>29.0}{:>14.0}", without.median, with.median);
        for (what, [without, with], ratio) in [
            ("another caller", self.plain_per_s, self.plain_ratio),
            ("replicated creates", self.replicated_per_s, self.replicated_ratio),
        ] {
            println!(
                "{what:<22}{:>16.0}{:>14.0}   {:.2} ({:.2}–{:.2}), at least {LEAST}: {}",
                without.median,
                with.median,
                ratio.median,
                ratio.q1,
                ratio.q3,
                if ratio.median >= LEAST { "held" } else { "NOT held" }
            );
        }
    }
}
