//! Which crate may know which: the arrows of ARCHITECTURE.md.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::{Context, Result};

use crate::repo::{Finding, Repo};

const PREFIX: &str = "cheops-";

/// What a crate may depend on, by directory name. Development dependencies are free.
const ALLOWED: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("scope", &["types"]),
    ("glue", &["types"]),
    ("plan", &["types", "scope", "glue"]),
    ("replica", &["types", "glue"]),
    ("store", &["types"]),
    ("net", &["types"]),
    ("mesh", &["types", "net"]),
    ("strong", &["types"]),
    ("ports", &["types", "plan", "net"]),
    ("proxy", &["types", "scope", "glue", "plan", "net", "ports"]),
    (
        "node",
        &[
            "types", "glue", "plan", "replica", "store", "net", "mesh", "ports", "strong",
        ],
    ),
    (
        "agent",
        &[
            "types", "scope", "glue", "plan", "net", "mesh", "ports", "proxy", "replica", "store", "node",
            "example", "relay",
        ],
    ),
    ("example", &[]),
    ("relay", &[]),
    ("linear", &[]),
    ("sim", &["types", "glue", "replica"]),
    (
        "fuzzing",
        &["types", "scope", "glue", "net", "proxy", "store", "node"],
    ),
    ("xtask", &["types", "relay", "net", "mesh", "replica", "linear"]),
];

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in repo.crates()? {
        let file = PathBuf::from("crates").join(&name).join("Cargo.toml");
        let manifest = repo.read(&file)?;
        let known = dependencies(&manifest).with_context(|| format!("{} cannot be read", file.display()))?;
        let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.push(Finding::new(
                &file,
                0,
                "the crate has no arrows: give it a line in verify/arrows.rs",
            ));
            continue;
        };
        for dependency in known {
            if !allowed.contains(&dependency.as_str()) {
                let line = manifest
                    .lines()
                    .position(|l| l.starts_with(&format!("{PREFIX}{dependency}")));
                findings.push(Finding::new(
                    &file,
                    line.map_or(0, |at| at + 1),
                    format!("`{name}` may not depend on `{dependency}`, only on {allowed:?}"),
                ));
            }
        }
    }
    Ok(findings)
}

/// The crates of this repository that a manifest depends on, also for one target only.
fn dependencies(manifest: &str) -> Result<BTreeSet<String>> {
    let manifest: toml::Table = manifest.parse()?;
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let tables = std::iter::once(&manifest).chain(
        targets
            .into_iter()
            .flat_map(toml::Table::values)
            .filter_map(toml::Value::as_table),
    );
    let mut names = BTreeSet::new();
    for table in tables {
        for section in ["dependencies", "build-dependencies"] {
            let Some(section) = table.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for (key, value) in section {
                let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
                names.extend(package.strip_prefix(PREFIX).map(str::to_owned));
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_kind_of_dependency_but_those_of_tests() {
        let manifest = r#"
            [dependencies]
            cheops-types.workspace = true
            serde = "1"
            other = { package = "cheops-net", path = "../net" }
            [target.'cfg(unix)'.dependencies]
            cheops-mesh = { path = "../mesh" }
            [build-dependencies]
            cheops-glue = { path = "../glue" }
            [dev-dependencies]
            cheops-agent = { path = "../agent" }
        "#;
        let names: Vec<_> = dependencies(manifest).unwrap().into_iter().collect();
        assert_eq!(names, ["glue", "mesh", "net", "types"]);
    }

    #[test]
    fn the_arrows_have_no_circle() {
        let mut done = BTreeSet::new();
        while done.len() < ALLOWED.len() {
            let before = done.len();
            done.extend(
                ALLOWED
                    .iter()
                    .filter(|(_, needs)| needs.iter().all(|need| done.contains(need)))
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>(),
            );
            assert!(done.len() > before, "a circle outside of {done:?}");
        }
    }
}
