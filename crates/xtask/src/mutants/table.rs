//! The table of mutants: what is wrong on purpose, and where.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::repo::{Finding, Repo};

pub(crate) const TABLE: &str = "crates/sim/mutants.toml";
const SOURCE: &str = "crates/replica/src";

/// One defect of the engine's logic, made by replacing a piece of its source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// The part of the logic that it breaks.
    pub(super) area: String,
    /// Below the engine's `src`.
    pub(super) file: String,
    /// Occurs exactly once in the file.
    pub(super) find: String,
    pub(super) replace: String,
    /// What the broken engine does.
    pub(super) wrong: String,
    /// Why nobody can tell it from the engine.
    pub(super) equivalent: Option<String>,
    /// Why no schedule notices it yet, though one could.
    pub(super) survives: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mutant: Vec<Mutant>,
}

impl Mutant {
    /// Whether a schedule has to notice it.
    pub(super) fn is_to_be_found(&self) -> bool {
        self.equivalent.is_none() && self.survives.is_none()
    }

    pub(super) fn path(&self) -> String {
        format!("{SOURCE}/{}", self.file)
    }

    /// Whether it is about names, which have schedules of their own.
    pub(super) fn is_about_names(&self) -> bool {
        self.file == "names.rs"
    }

    /// The source with the defect; the error says what is wrong with the row.
    pub(super) fn apply(&self, source: &str) -> Result<String, String> {
        match source.matches(&self.find).count() {
            1 if self.find == self.replace => Err("replaces a text by itself".to_owned()),
            1 => Ok(source.replacen(&self.find, &self.replace, 1)),
            times => Err(format!("its text occurs {times} times in {}", self.file)),
        }
    }
}

pub(super) fn read(repo: &Repo) -> Result<Vec<Mutant>> {
    parse(&repo.read(TABLE)?).with_context(|| format!("{TABLE} is not a table of mutants"))
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let Table { mutant: mutants } = toml::from_str(text)?;
    let mut names = BTreeSet::new();
    for mutant in &mutants {
        ensure!(
            names.insert(&mutant.name),
            "two mutants are called {}",
            mutant.name
        );
        ensure!(
            mutant.equivalent.is_none() || mutant.survives.is_none(),
            "{} is either equivalent or survives",
            mutant.name
        );
    }
    Ok(mutants)
}

/// Some of those that a schedule has to notice: the same ones for the same seed, in the order of the table.
pub(super) fn sample(mut mutants: Vec<Mutant>, count: usize, seed: u64) -> Vec<Mutant> {
    mutants.retain(Mutant::is_to_be_found);
    let lot = |mutant: &Mutant| {
        let mut hasher = DefaultHasher::new();
        (seed, &mutant.name).hash(&mut hasher);
        hasher.finish()
    };
    let mut lots: Vec<_> = mutants.iter().map(lot).collect();
    lots.sort_unstable();
    let drawn: BTreeSet<_> = lots.into_iter().take(count).collect();
    mutants
        .into_iter()
        .filter(|mutant| drawn.contains(&lot(mutant)))
        .collect()
}

/// Every row still finds its text: a rule of `cargo xtask verify`, so that the table does not rot.
pub(crate) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let text = repo.read(TABLE)?;
    let mut findings = Vec::new();
    for mutant in parse(&text)? {
        let name = format!("name = \"{}\"", mutant.name);
        let line = text.lines().position(|line| line == name).map_or(0, |at| at + 1);
        let broken = match repo.read(mutant.path()) {
            Ok(source) => mutant.apply(&source).err(),
            Err(error) => Some(error.to_string()),
        };
        let what = broken.map(|what| format!("`{}`: {what}", mutant.name));
        findings.extend(what.map(|what| Finding::new(Path::new(TABLE), line, what)));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str) -> Mutant {
        Mutant {
            name: name.to_owned(),
            area: "order".to_owned(),
            file: "step.rs".to_owned(),
            find: "a < b".to_owned(),
            replace: "a > b".to_owned(),
            wrong: "the later one is first".to_owned(),
            equivalent: None,
            survives: None,
        }
    }

    #[test]
    fn a_text_that_occurs_once_is_replaced() {
        let mutant = mutant("m");
        assert_eq!(mutant.apply("if a < b {").unwrap(), "if a > b {");
        assert!(mutant.apply("if b < a {").unwrap_err().contains("0 times"));
        assert!(mutant.apply("a < b, a < b").unwrap_err().contains("2 times"));
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let all: Vec<_> = (0..20).map(|n| mutant(&format!("m{n}"))).collect();
        let names = |seed| -> Vec<_> {
            let drawn = sample(all.clone(), 5, seed);
            drawn.into_iter().map(|mutant| mutant.name).collect()
        };
        assert_eq!(names(1).len(), 5);
        assert_eq!(names(1), names(1));
        assert!((2..10).any(|seed| names(seed) != names(1)));
    }

    #[test]
    fn a_sample_has_no_known_survivors() {
        let survivor = Mutant {
            survives: Some("no schedule does it".to_owned()),
            ..mutant("a")
        };
        let drawn = sample(vec![survivor, mutant("b")], 2, 0);
        let names: Vec<_> = drawn.iter().map(|mutant| mutant.name.as_str()).collect();
        assert_eq!(names, ["b"]);
    }

    #[test]
    fn a_mutant_is_declared_in_one_way() {
        let row = "[[mutant]]\nname = 'm'\narea = 'a'\nfile = 'f'\nfind = 'x'\nreplace = 'y'\nwrong = 'w'\n";
        assert!(parse(&format!("{row}survives = 'why'")).is_ok());
        assert!(parse(&format!("{row}survives = 'why'\nequivalent = 'why'")).is_err());
    }
}
