//! Sites under strongly consistent writes and reads and random faults, then healed. Has every history an order in
//! which each answer is right? Is nothing acknowledged lost, nothing refused executed, nothing made twice? Have all
//! applications the same?
//!
//! Real agents in front of applications of their own, links with a little delay that are cut, clocks that are set.
//! Nobody repairs anything. What callers are told is judged by `cheops-linear`, and so is what everybody has in the
//! end: it is one more read at each site.

mod answer;
mod callers;
mod faults;
mod history;
mod journal;
mod look;
mod oracle;
mod outage;
mod phases;
mod report;

use std::{process::ExitCode, time::Duration};

use anyhow::Result;

use self::history::Form;
use crate::{
    command::AgentArgs,
    real::Interrupt,
    repo::Repo,
    trouble::{Dice, Mesh, Planned, Site, Sites, clock, some_seed},
};

/// Shorter than their defaults, so that half an hour holds many faults. None says what is right, only how soon it is
/// tried again or noticed.
const LIMITS: &[(&str, u64)] = &[
    ("heartbeat_interval_ms", 300),
    ("peer_connect_timeout_ms", 1_000),
    ("peer_timeout_ms", 3_000),
    ("doubt_settle_ms", 1_000),
    ("ship_retry_max_ms", 2_000),
    ("replay_retry_max_ms", 2_000),
    ("replay_blocked_ms", 2_000),
];
/// How long after healing sites may still differ.
const AGREE_MAX: Duration = Duration::from_secs(30);
/// From one end of a link to the other at most.
const DELAY_MAX_MS: u64 = 10;
/// How long the run is that must find something wrong.
const SELF_CHECK_S: u64 = 15;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long writes, reads and faults go on
    #[arg(long, default_value_t = 1_800, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    seconds: u64,
    /// Repeats the faults, the distances and the dice of the callers of an earlier run, which printed it
    #[arg(long)]
    seed: Option<u64>,
    /// How many sites there are
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(3..=9))]
    sites: u64,
    /// Leaves out a kind of fault, in the words of the summary, e.g. `kills` or `clocks back`; may be given several
    /// times
    #[arg(long, value_name = "FAULTS")]
    without: Vec<String>,
    /// Looks that the suite can fail: a few seconds under `&`, which promises less, with cuts. Some history must have
    /// no order, else this fails
    #[arg(long)]
    self_check: bool,
    /// Under `&` in the place of `strong(...)`, with all faults: to see what the suite does when much is wrong
    #[arg(long, hide = true)]
    eventual: bool,
    #[command(flatten)]
    agent: AgentArgs,
    /// Keep the directory with logs, stores and the history also when all is well
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let seed = args.seed.unwrap_or_else(some_seed);
    let library = clock::library()?;
    let program = args.agent.program(repo)?;
    let interrupt = Interrupt::listen()?;
    println!("cargo xtask strong {}", again(args, seed));
    let dir = tempfile::Builder::new()
        .prefix("cheops-strong-")
        .tempdir()?
        .keep();
    let delays = delays(seed, args.sites as usize);
    let mesh = Mesh {
        program: &program,
        library: Some(&library),
        dir: &dir,
        sites: args.sites as usize,
        limits: LIMITS,
        delay: &|from, to| delays[from.min(to)][from.max(to)],
    };
    let outcome = if args.self_check {
        self_check(&interrupt, &mesh, seed)
    } else {
        let planned = faults::plan(seed, mesh.sites, args.seconds * 1_000, &args.without);
        let form = if args.eventual {
            Form::Eventual
        } else {
            Form::Strong
        };
        play(&interrupt, &mesh, (seed, args.seconds, form), planned)
    };
    let holds = matches!(outcome, Ok(true));
    if holds && !args.keep {
        std::fs::remove_dir_all(&dir)?;
    } else {
        println!("logs, stores and the history are in {}", dir.display());
    }
    outcome?;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether all is well in the end.
fn play(
    interrupt: &Interrupt,
    mesh: &Mesh<'_>,
    (seed, seconds, form): (u64, u64, Form),
    planned: Vec<Planned>,
) -> Result<bool> {
    let mut sites = Sites::start(mesh)?;
    phases::is_available(&sites, form)?;
    let (run, healed) = phases::all(interrupt, &mut sites, (seed, seconds, form), planned)?;
    report::conclude(mesh, &run, &healed)
}

/// Whether a history without an order was found where there must be some, and nothing else that is wrong.
fn self_check(interrupt: &Interrupt, mesh: &Mesh<'_>, seed: u64) -> Result<bool> {
    let planned = faults::cuts(mesh.sites, SELF_CHECK_S * 1_000);
    let mut sites = Sites::start(mesh)?;
    let how = (seed, SELF_CHECK_S, Form::Eventual);
    let (run, healed) = phases::all(interrupt, &mut sites, how, planned)?;
    report::must_find(mesh, &run, &healed)
}

/// By two sites, the lower one first: from nothing to a few milliseconds.
fn delays(seed: u64, sites: usize) -> Vec<Vec<Duration>> {
    let mut dice = Dice::of(seed, u64::MAX);
    let mut delay = |_: Site| Duration::from_millis(dice.between(0, DELAY_MAX_MS));
    (0..sites).map(|_| (0..sites).map(&mut delay).collect()).collect()
}

/// The arguments that repeat a run.
fn again(args: &Args, seed: u64) -> String {
    let length = if args.self_check {
        "--self-check".to_owned()
    } else {
        format!("--seconds {}", args.seconds)
    };
    let mut text = format!("{length} --seed {seed} --sites {}", args.sites);
    if args.eventual {
        text.push_str(" --eventual");
    }
    for without in &args.without {
        text.extend([" --without '", without, "'"]);
    }
    text
}
