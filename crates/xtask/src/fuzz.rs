//! Inputs that break what reads them: what strangers send, and HTTP/1.1 through a whole agent.

use std::{
    path::PathBuf,
    process::{ExitCode, Stdio},
};

use anyhow::Result;

use crate::{command, repo::Repo};

/// The one target that needs an agent.
const FRAMING: &str = "framing";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to hunt in; all, unless some are named
    targets: Vec<String>,
    /// Executions of each target; of `framing`, one for 50 of them
    #[arg(long)]
    executions: Option<u64>,
    /// Seconds for each target
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Another seed, other inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// One line of JSON for each target
    #[arg(long)]
    json: bool,
    /// Run one input and say what is wrong with it
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// List the targets
    #[arg(long)]
    list: bool,
    /// How it is built: `dev` is built by the tests anyway, `fuzz` runs several times faster
    #[arg(long, default_value = "dev")]
    profile: String,
}

/// Builds the driver, and the agent where it is needed, and hunts. What breaks something is made small and written to
/// a file, with the command that replays it.
pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let package = ["--profile", &args.profile, "-p", "cheops-fuzzing"];
    let mut build = command::cargo(&repo.root);
    command::succeed(build.args(["build", "--quiet"]).args(package))?;
    let mut hunt = command::cargo(&repo.root);
    hunt.args(["run", "--quiet"]).args(package).arg("--");
    hunt.args(&args.targets)
        .args(["--seconds", &args.seconds.to_string()])
        .args(["--seed", &args.seed.to_string()]);
    if let Some(executions) = args.executions {
        hunt.args(["--executions", &executions.to_string()]);
    }
    if args.json {
        hunt.arg("--json");
    }
    if let Some(file) = &args.replay {
        // Cargo runs it in the repository, wherever this is called.
        hunt.arg("--replay").arg(std::path::absolute(file)?);
    }
    if args.list {
        hunt.arg("--list");
    } else if args.targets.is_empty() || args.targets.iter().any(|target| target == FRAMING) {
        hunt.arg("--agent")
            .arg(command::build_agent(repo, &args.profile)?);
    }
    let status = hunt.stdin(Stdio::null()).status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
