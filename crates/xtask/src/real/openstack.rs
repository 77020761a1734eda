//! `cargo xtask real openstack`: OpenStack of several sites, its own client, and agents between them.

mod client;
mod concurrent;
mod curl;
mod euro_par;
mod identity;
mod images;
mod merged;
mod ordinary;
mod page;
mod refused;
mod servers;
mod service;
mod sites;

use std::{fs, process::ExitCode, time::Instant};

use anyhow::Result;

use super::{Interrupt, Options, Scenario, Suite, agent_program};
use crate::repo::Repo;
use sites::Sites;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Use this glue instead of the built-in one
    #[arg(long, value_name = "FILE", default_value = "openstack")]
    glue: String,
    #[command(flatten)]
    options: Options,
}

const SCENARIOS: &[&[Scenario<Sites>]] = &[
    ordinary::SCENARIOS,
    euro_par::SCENARIOS,
    merged::SCENARIOS,
    images::SCENARIOS,
    servers::SCENARIOS,
    concurrent::SCENARIOS,
    identity::SCENARIOS,
    refused::SCENARIOS,
    page::SCENARIOS,
];

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let suite = Suite {
        application: "openstack",
        scenarios: SCENARIOS.iter().copied().flatten().collect(),
    };
    let suite = suite.select(&args.options)?;
    if args.options.list {
        suite.list();
        return Ok(ExitCode::SUCCESS);
    }
    let interrupt = Interrupt::listen()?;
    let program = agent_program(repo, &args.options)?;
    sites::install(repo, &interrupt)?;
    let dir = tempfile::Builder::new().prefix("cheops-real-").tempdir()?;
    let start = Instant::now();
    let mut sites = Sites::start(repo, &interrupt, &program, &args.glue, dir.path())?;
    eprintln!("the sites are up after {:.0} s", start.elapsed().as_secs_f64());
    let code = suite.play(&mut sites, &interrupt, &args.options, dir.path());
    drop(sites);
    fs::remove_dir_all(dir.keep())?;
    code
}
