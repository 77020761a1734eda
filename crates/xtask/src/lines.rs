//! How much code there is, per crate: the lines below `src` that have code on them, without tests, comments,
//! documentation and blank lines.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{command::succeed, repo::Repo, source};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Count this revision as well and show both
    #[arg(long)]
    rev: Option<String>,
}

type Counts = BTreeMap<String, usize>;

pub(crate) fn run(repo: &Repo, args: &Args) -> Result<ExitCode> {
    let now = count(repo)?;
    match &args.rev {
        Some(rev) => print!("{}", beside(rev, &count_revision(repo, rev)?, &now)),
        None => print!("{}", alone(&now)),
    }
    Ok(ExitCode::SUCCESS)
}

fn count(repo: &Repo) -> Result<Counts> {
    let mut counts = Counts::new();
    for name in repo.crates()? {
        let files = source::read_crate(repo, &name)?;
        counts.insert(name, files.iter().map(|(_, source)| source.lines.len()).sum());
    }
    Ok(counts)
}

/// Counts what git has, in a directory that is removed afterwards.
fn count_revision(repo: &Repo, rev: &str) -> Result<Counts> {
    let dir = tempfile::tempdir()?;
    let archive = dir.path().join("crates.tar");
    succeed(
        Command::new("git")
            .current_dir(&repo.root)
            .arg("archive")
            .arg("--output")
            .arg(&archive)
            .args([rev, "crates"]),
    )?;
    succeed(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(dir.path()),
    )?;
    count(&Repo {
        root: dir.path().to_owned(),
    })
}

fn alone(now: &Counts) -> String {
    let row = |name: &str, lines: usize| format!("{name:<10}{lines:>8}\n");
    let rows: String = now.iter().map(|(name, lines)| row(name, *lines)).collect();
    rows + &row("sum", sum(now))
}

fn beside(rev: &str, before: &Counts, now: &Counts) -> String {
    let row = |name: &str, before: usize, now: usize| {
        let more = now.cast_signed() - before.cast_signed();
        format!("{name:<10}{before:>12}{now:>8}{more:>+8}\n")
    };
    let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or_default();
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let rows: String = names
        .into_iter()
        .map(|name| row(name, of(before, name), of(now, name)))
        .collect();
    format!(
        "{:<10}{rev:>12}{:>8}\n{rows}{}",
        "",
        "now",
        row("sum", sum(before), sum(now))
    )
}

fn sum(counts: &Counts) -> usize {
    counts.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_revisions_have_all_crates() {
        let before = Counts::from([("net".to_owned(), 10), ("old".to_owned(), 3)]);
        let now = Counts::from([("net".to_owned(), 8), ("new".to_owned(), 4)]);
        let table = beside("abc", &before, &now);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                vec!["abc", "now"],
                vec!["net", "10", "8", "-2"],
                vec!["new", "0", "4", "+4"],
                vec!["old", "3", "0", "-3"],
                vec!["sum", "13", "12", "-1"],
            ]
        );
    }
}
