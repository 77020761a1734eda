//! Checks, suites and benchmarks of the repository, as `cargo xtask <command>`.
//!
//! `verify` only reads, `fix` writes. Nothing here is part of the agent.

mod bench;
mod command;
mod converge;
mod deny;
mod docs;
mod e2e;
mod fuzz;
mod hostile;
mod lines;
mod mutants;
mod nightly;
mod packages;
mod processes;
mod real;
mod repo;
mod sim;
mod source;
mod strong;
mod torture;
mod trouble;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::repo::Repo;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, suites and benchmarks of the repository"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check formatting, lints, dependency arrows, purity, names and documentation; write nothing
    Verify(verify::Args),
    /// Format, and apply what clippy can fix by itself
    Fix,
    /// Count lines of code per crate, without tests, comments and blank lines; also of another revision
    Lines(lines::Args),
    /// Run the commands of the documentation and compare what they print
    Docs,
    /// Check dependencies against deny.toml; installs cargo-deny when it is missing
    Deny,
    /// Move long bodies between sites and watch the agents' memory
    E2e(e2e::Args),
    /// Play simulated schedules of the replication engine
    Sim(sim::Args),
    /// Break the replication engine's logic, one place at a time, and see that the simulator notices
    Mutants(mutants::Args),
    /// Hunt for inputs that break what reads them: what strangers send, HTTP/1.1 through a whole agent
    Fuzz(fuzz::Args),
    /// Run the long forms of the suites: a million schedules, all mutants, ten million inputs, ten minutes of faults, 200 kills
    Nightly(nightly::Args),
    /// Kill agents under load and look for what was lost or made twice
    Torture(torture::Args),
    /// Disturb three sites under writes, heal them, and look whether they agree and nothing is lost
    Converge(converge::Args),
    /// Disturb five sites under strongly consistent writes and reads, and look whether each history has an order
    Strong(strong::Args),
    /// Attack three agents as a hostile peer and as hostile clients, and look what they still do
    Hostile(hostile::Args),
    /// Play scenarios on real applications behind agents
    #[command(subcommand)]
    Real(real::Real),
    /// Measure
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let repo = Repo::find()?;
    match command {
        Command::Verify(args) => verify::run(&repo, &args),
        Command::Fix => verify::fix(&repo),
        Command::Lines(args) => lines::run(&repo, &args),
        Command::Docs => docs::run(&repo),
        Command::Deny => deny::run(&repo),
        Command::E2e(args) => e2e::run(&repo, &args),
        Command::Sim(args) => sim::run(&repo, &args),
        Command::Mutants(args) => mutants::run(&repo, &args),
        Command::Fuzz(args) => fuzz::run(&repo, &args),
        Command::Nightly(args) => nightly::run(&repo, &args),
        Command::Torture(args) => torture::run(&repo, &args),
        Command::Converge(args) => converge::run(&repo, &args),
        Command::Strong(args) => strong::run(&repo, &args),
        Command::Hostile(args) => hostile::run(&repo, &args),
        Command::Real(real) => real::run(&repo, real),
        Command::Bench(bench) => bench::run(&repo, bench),
    }
}
