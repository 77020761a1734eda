//! Everything that can be said about the repository without running the agent.
//!
//! Each rule is a function from the repository to findings; a test runs every rule, so that
//! `cargo test --workspace` knows as much as `cargo xtask verify`.

mod arrows;
mod cycles;
mod links;
pub(crate) mod markdown;
mod names;
mod pages;
mod purity;

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    command::{cargo, succeed},
    mutants,
    repo::{Finding, Repo},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out rustfmt and clippy
    #[arg(long)]
    no_cargo: bool,
}

type Rule = fn(&Repo) -> Result<Vec<Finding>>;

const RULES: &[(&str, Rule)] = &[
    (
        "arrows: a crate depends only on crates it may know",
        arrows::check,
    ),
    (
        "purity: clocks, files and the environment stay in their crates",
        purity::check,
    ),
    ("cycles: the modules of a crate form a line", cycles::check),
    (
        "names: the core knows no application, the example no Cheops",
        names::check,
    ),
    (
        "pages: every error code and every limit is documented",
        pages::check,
    ),
    ("links: every relative link leads somewhere", links::check),
    (
        "mutants: the text that each one replaces occurs once",
        mutants::check,
    ),
];

const CLIPPY: [&str; 3] = ["clippy", "--workspace", "--all-targets"];

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let mut failed = 0;
    for (name, rule) in RULES {
        let findings = rule(repo)?;
        println!("{} {name}", if findings.is_empty() { "ok  " } else { "FAIL" });
        for finding in &findings {
            println!("     {finding}");
        }
        failed += usize::from(!findings.is_empty());
    }
    if !args.no_cargo {
        let clippy = CLIPPY.iter().chain(&["--quiet", "--", "-D", "warnings"]);
        let steps = [
            (
                "format: rustfmt has nothing to change",
                cargo(&repo.root).args(["fmt", "--all", "--check"]),
            ),
            ("lints: clippy has nothing to say", cargo(&repo.root).args(clippy)),
        ]
        .map(|(name, command)| (name, succeed(command)));
        for (name, result) in steps {
            match result {
                Ok(()) => println!("ok   {name}"),
                Err(error) => {
                    println!("FAIL {name}\n     {error:#}");
                    failed += 1;
                }
            }
        }
    }
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    println!("{failed} of the rules do not hold; `cargo xtask fix` repairs formatting and simple lints");
    Ok(ExitCode::FAILURE)
}

pub(crate) fn fix(repo: &Repo) -> Result<ExitCode> {
    succeed(
        cargo(&repo.root)
            .args(CLIPPY)
            .args(["--fix", "--allow-dirty", "--allow-staged"]),
    )?;
    succeed(cargo(&repo.root).args(["fmt", "--all"]))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_its_rules() {
        let repo = Repo::find().unwrap();
        let mut broken = Vec::new();
        for (name, rule) in RULES {
            for finding in rule(&repo).unwrap() {
                broken.push(format!("{name}\n  {finding}"));
            }
        }
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
}
