//! The long forms of the suites that every change runs in short, one after the other. For a machine that has the night.

use std::{
    process::{ExitCode, Stdio},
    time::Instant,
};

use anyhow::Result;

use crate::{command, repo::Repo};

/// What is run, and about how long it takes on two cores.
const STEPS: [(&str, &[&str]); 11] = [
    ("35 min", &["sim", "--schedules", "1000000", "--keep-going"]),
    ("30 min", &["mutants"]),
    (
        "60 min",
        &[
            "fuzz",
            "--profile",
            "fuzz",
            "--executions",
            "10000000",
            "--seconds",
            "3600",
        ],
    ),
    ("12 min", &["converge", "--seconds", "600"]),
    ("32 min", &["strong", "--seconds", "1800"]),
    ("5 min", &["bench", "strong"]),
    ("3 min", &["torture", "--kills", "200"]),
    ("10 min", &["bench", "scoped", "--seconds", "600"]),
    ("2 min", &["bench", "greedy"]),
    ("3 min", &["bench", "forward"]),
    (
        "6 min",
        &[
            "bench",
            "proxy",
            "--rounds",
            "21",
            "--only",
            "nginx,haproxy,haproxy-lua,cheops,cheops-scope",
        ],
    ),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print what would be run, and about how long it takes on two cores
    #[arg(long)]
    list: bool,
}

/// Runs all of them, also after one has failed, and says which did.
pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut failed = Vec::new();
    for (time, step) in STEPS {
        let shown = format!("cargo xtask {}", step.join(" "));
        if args.list {
            println!("{time:>7}  {shown}");
            continue;
        }
        println!("\n==> {shown}");
        let begin = Instant::now();
        let mut run = command::cargo(&repo.root);
        let status = run.arg("xtask").args(step).stdin(Stdio::null()).status()?;
        println!("==> {shown}: {} s", begin.elapsed().as_secs());
        if !status.success() {
            failed.push(shown);
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}", failed.join("; "));
    Ok(ExitCode::FAILURE)
}
