//! Do the simulator and the engine's tests find what is wrong? Each mutant breaks the engine's logic in one place; the
//! ordinary schedules have to notice, or else a test.

mod report;
mod table;
mod workshop;

use std::{collections::BTreeMap, fs, process::ExitCode};

use anyhow::{Result, ensure};

use self::{
    report::{Tried, Verdict},
    table::Mutant,
    workshop::Workshop,
};
use crate::repo::Repo;

pub(crate) use table::check;

#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
pub(crate) struct Args {
    /// Try this one alone; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Try those of this area alone
    #[arg(long)]
    area: Option<String>,
    /// Try so many of those that a schedule has to notice, drawn by `--seed`
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// What a sample is drawn by
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds each has to survive; the ordinary test run plays as many
    #[arg(long, default_value_t = 2_000)]
    schedules: u64,
    /// Seeds that are not played, as the engine itself fails there; those of crates/sim/tests/known.txt never count
    #[arg(long, value_delimiter = ',', value_name = "SEEDS")]
    except: Vec<u64>,
    /// Do not try first what killed a mutant last (crates/sim/MUTANTS.md): look for the first seed or test that does
    #[arg(long)]
    afresh: bool,
    /// Show the table and try nothing
    #[arg(long)]
    list: bool,
    /// Print the verdicts as JSON
    #[arg(long)]
    json: bool,
    /// Write crates/sim/MUTANTS.md, which says what notices each of them; not with a part of the table
    #[arg(long, conflicts_with_all = ["only", "area", "sample"])]
    page: bool,
}

const PAGE: &str = "crates/sim/MUTANTS.md";

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mutants = chosen(table::read(repo)?, args)?;
    if args.list {
        print!("{}", report::list(&mutants));
        return Ok(ExitCode::SUCCESS);
    }
    let rotten = check(repo)?;
    for finding in &rotten {
        eprintln!("{finding}");
    }
    ensure!(rotten.is_empty(), "{} is out of date", table::TABLE);
    eprintln!("the engine as it is");
    let workshop = Workshop::open(repo, args.schedules, &args.except)?;
    let killers = if args.afresh {
        BTreeMap::new()
    } else {
        report::last_killers(&repo.read(PAGE)?)
    };
    let mut tried = Vec::new();
    for (at, mutant) in mutants.iter().enumerate() {
        let verdict = Verdict::of(mutant, workshop.try_out(mutant, killers.get(&mutant.name))?);
        eprintln!("{:>3} of {}  {}: {verdict}", at + 1, mutants.len(), mutant.name);
        tried.push(Tried { mutant, verdict });
    }
    if args.page {
        fs::write(repo.root.join(PAGE), report::page(&tried))?;
    }
    if args.json {
        println!("{}", report::json(&tried)?);
    } else {
        print!("{}", report::table(&tried));
    }
    Ok(if tried.iter().all(|tried| tried.verdict.is_good()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the arguments leave of the table.
fn chosen(mut mutants: Vec<Mutant>, args: &Args) -> Result<Vec<Mutant>> {
    for name in &args.only {
        let is_known = mutants.iter().any(|mutant| mutant.name == *name);
        ensure!(is_known, "there is no mutant {name}; see --list");
    }
    mutants.retain(|mutant| {
        let is_of_area = args.area.as_ref().is_none_or(|area| mutant.area == *area);
        is_of_area && (args.only.is_empty() || args.only.contains(&mutant.name))
    });
    Ok(match args.sample {
        Some(count) => table::sample(mutants, count, args.seed),
        None => mutants,
    })
}
