//! Three sites under random writes and random faults, then healed: do they agree, and is every acknowledged write
//! accounted for? Real agents, applications of their own, links that are cut, clocks that are set.
//!
//! Nobody repairs anything: no `verify`, no `settle`. What an operator would have to do is counted and shown.

mod callers;
mod history;
mod look;
mod oracle;
mod phases;
mod report;
mod story;
mod verdict;

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Result;

use self::history::SITES;
use crate::{
    command::AgentArgs,
    real::Interrupt,
    repo::Repo,
    trouble::{Mesh, Planned, Sites, clock, plan, some_seed},
};

/// Limits that are shorter than their defaults, so that ten minutes hold many faults and 30 s are long. None of them
/// says what is right, only how soon it is tried again or noticed.
pub(crate) const LIMITS: &[(&str, u64)] = &[
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

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long writes and faults go on
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    seconds: u64,
    /// Repeats the faults and the dice of the callers of an earlier run, which printed it
    #[arg(long)]
    seed: Option<u64>,
    /// Leaves out a kind of fault, in the words of the summary, e.g. `kills` or `clocks far ahead`; may be given
    /// several times
    #[arg(long, value_name = "FAULTS")]
    without: Vec<String>,
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
    println!("cargo xtask converge {}", again(args, seed));
    println!("limits that are shortened: {}", report::limits(LIMITS));
    let dir = tempfile::Builder::new()
        .prefix("cheops-converge-")
        .tempdir()?
        .keep();
    let planned = plan(seed, SITES, args.seconds * 1_000, &args.without);
    let outcome = play(
        &interrupt,
        (&program, &library),
        &dir,
        (seed, args.seconds),
        planned,
    );
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
    (program, library): (&Path, &Path),
    dir: &Path,
    (seed, seconds): (u64, u64),
    planned: Vec<Planned>,
) -> Result<bool> {
    let mesh = Mesh {
        program,
        library: Some(library),
        dir,
        sites: SITES,
        limits: LIMITS,
        delay: &|_, _| Duration::ZERO,
    };
    let mut sites = Sites::start(&mesh)?;
    let run = phases::disturb(interrupt, &mut sites, (seed, seconds), planned)?;
    sites.heal()?;
    let healed = phases::agree(interrupt, &mut sites, &run, AGREE_MAX)?;
    report::conclude(&sites, dir, &run, &healed)
}

/// The arguments that repeat a run.
fn again(args: &Args, seed: u64) -> String {
    let mut text = format!("--seconds {} --seed {seed}", args.seconds);
    for without in &args.without {
        text.extend([" --without '", without, "'"]);
    }
    text
}
