//! Many simulated schedules of the replication engine, by all cores.

use std::{
    process::{ExitCode, Stdio},
    thread,
    time::Instant,
};

use anyhow::Result;

use crate::{command, repo::Repo};

/// Optimised like a release, but with panics that become failures of their seed.
const BUILD: [&str; 4] = ["--profile", "sim", "-p", "cheops-sim"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds to play
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Go on after a failure, and list all at the end
    #[arg(long)]
    keep_going: bool,
}

/// Builds the simulator optimised and plays the seeds. What fails becomes a small schedule, a story and a command
/// that replays it.
pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut build = command::cargo(&repo.root);
    command::succeed(build.args(["build", "--quiet"]).args(BUILD))?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut play = command::cargo(&repo.root);
    play.args(["run", "--quiet"])
        .args(BUILD)
        .arg("--")
        .args(["--seed", &args.seed.to_string()])
        .args(["--schedules", &args.schedules.to_string()])
        .args(["--threads", &threads.to_string()]);
    if args.keep_going {
        play.arg("--keep-going");
    }
    let begin = Instant::now();
    let status = play.stdin(Stdio::null()).status()?;
    println!("{} s on {threads} threads", begin.elapsed().as_secs());
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
