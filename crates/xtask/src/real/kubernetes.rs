//! `cargo xtask real kubernetes`: control planes of several sites, kubectl, and agents between them.

mod access;
mod clients;
mod cross;
mod decided;
mod kinds;
mod kubelet;
mod page;
mod papers;
mod partition;
mod replicas;
mod scopes;
mod sites;
mod streams;
mod transparent;
mod typing;

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

/// How many sites they need, and the scenarios in the order in which they are played.
const SCENARIOS: &[(u8, &[Scenario<Sites>])] = &[
    (2, transparent::SCENARIOS),
    (2, streams::SCENARIOS),
    (2, papers::SCENARIOS),
    (2, kinds::SCENARIOS),
    (3, partition::SCENARIOS),
    (3, decided::SCENARIOS),
    (2, scopes::SCENARIOS),
    (2, cross::SCENARIOS),
    (2, typing::SCENARIOS),
    (2, page::SCENARIOS),
    (2, access::SCENARIOS),
];

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let (possible, left_out): (Vec<_>, Vec<_>) = SCENARIOS
        .iter()
        .flat_map(|(sites, scenarios)| scenarios.iter().map(move |scenario| (sites, scenario)))
        .partition(|(sites, _)| **sites <= args.sites);
    for (sites, scenario) in left_out {
        eprintln!("{} is left out: it needs {sites} sites", scenario.name);
    }
    let suite = Suite {
        application: "kubernetes",
        scenarios: possible.into_iter().map(|(_, scenario)| scenario).collect(),
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
