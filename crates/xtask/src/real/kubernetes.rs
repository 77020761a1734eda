//! `cargo xtask real kubernetes`: control planes of several sites, kubectl, and agents between them.

mod access;
mod clients;
mod kinds;
mod kubelet;
mod papers;
mod partition;
mod replicas;
mod scopes;
mod sites;
mod streams;
mod transparent;

use std::{fs, process::ExitCode, time::Instant};

use anyhow::Result;

use super::{Interrupt, Options, Scenario, Suite, agent_program};
use crate::repo::Repo;
use sites::Sites;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many sites; some scenarios need three
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    sites: u8,
    #[command(flatten)]
    options: Options,
}

const SCENARIOS: &[&[Scenario<Sites>]] = &[
    transparent::SCENARIOS,
    streams::SCENARIOS,
    papers::SCENARIOS,
    kinds::SCENARIOS,
    partition::SCENARIOS,
    scopes::SCENARIOS,
    access::SCENARIOS,
];

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let suite = Suite {
        application: "kubernetes",
        scenarios: SCENARIOS.iter().copied().flatten().collect(),
    };
    let suite = suite.select(&args.options)?;
    if args.options.list {
        suite.list();
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::listen()?;
    let program = agent_program(repo, &args.options)?;
    sites::build(repo, &interrupt)?;
    let dir = tempfile::Builder::new().prefix("cheops-real-").tempdir()?;
    let start = Instant::now();
    let mut sites = Sites::start(repo, &interrupt, &program, dir.path(), args.sites.into())?;
    eprintln!(
        "{} sites are up after {:.0} s",
        args.sites,
        start.elapsed().as_secs_f64()
    );
    let code = suite.play(&mut sites, &interrupt, &args.options, dir.path());
    drop(sites);
    fs::remove_dir_all(dir.keep())?;
    code
}
