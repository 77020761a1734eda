//! Many simulated schedules of the replication engine, by all cores.

use std::{process::ExitCode, thread, time::Instant};

use anyhow::Result;

use crate::{command, repo::Repo};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds to play
    #[arg(long, default_value_t = 100_000)]
    schedules: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Builds the simulator optimised and plays the seeds. It prints how to replay one that fails.
pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut build = command::cargo(&repo.root);
    command::succeed(build.args(["build", "--release", "--quiet", "-p", "cheops-sim"]))?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut play = command::cargo(&repo.root);
    play.args(["run", "--release", "--quiet", "-p", "cheops-sim", "--"])
        .args(["--seed", &args.seed.to_string()])
        .args(["--schedules", &args.schedules.to_string()])
        .args(["--threads", &threads.to_string()]);
    let begin = Instant::now();
    let result = command::succeed(&mut play);
    println!("{} s on {threads} threads", begin.elapsed().as_secs());
    result.map(|()| ExitCode::SUCCESS)
}
