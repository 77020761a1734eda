//! Kills of agents at random moments under load, more of them than `cargo test` has time for.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    command::{cargo, succeed},
    repo::Repo,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How often an agent is killed
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Repeats the moments of an earlier run, which printed it
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut command = cargo(&repo.root);
    command.args([
        "test",
        "-p",
        "cheops-agent",
        "--test",
        "e2e",
        "replication::crash",
        "--",
    ]);
    command.args(["--nocapture", "--test-threads=1"]);
    command.env("CHEOPS_KILLS", args.kills.to_string());
    if let Some(seed) = args.seed {
        command.env("CHEOPS_SEED", seed.to_string());
    }
    succeed(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
