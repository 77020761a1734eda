//! The modules of a crate form a line: none of them needs itself, however far around. A module is a child of
//! the crate's root with everything below it.
//!
//! For example `mod a` uses `crate::b::B`, and `mod b` uses `super::A`, which `lib.rs` re-exports from `a`:
//! neither can be read, tested or moved without the other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::{
    repo::{Finding, Repo},
    source::{self, Name, Source},
};

/// Where a module uses another one.
#[derive(Clone)]
struct Use {
    file: PathBuf,
    line: usize,
    path: String,
}

/// Who uses whom, each with the first place where it does.
#[derive(Default)]
struct Uses(BTreeMap<String, BTreeMap<String, Use>>);

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for name in repo.crates()? {
        let dir = Path::new("crates").join(&name).join("src");
        findings.extend(cycles(&dir, &source::read_crate(repo, &name)?));
    }
    Ok(findings)
}

/// One finding for each knot of modules that all need each other: its shortest cycle.
fn cycles(dir: &Path, files: &[(PathBuf, Source)]) -> Vec<Finding> {
    let uses = Uses::of(dir, files);
    let mut done = BTreeSet::new();
    let mut findings = Vec::new();
    for module in uses.0.keys() {
        let knot = uses.knot(module);
        if knot.is_empty() || !done.insert(knot.clone()) {
            continue;
        }
        let shortest = knot
            .iter()
            .filter_map(|module| uses.cycle(module))
            .min_by_key(Vec::len);
        findings.extend(shortest.map(|cycle| told(&cycle, knot.len())));
    }
    findings
}

fn told(cycle: &[(&str, &Use)], knot: usize) -> Finding {
    let step = |(module, used): &(&str, &Use)| {
        format!(
            "{module} ({}:{} {}) → ",
            used.file.display(),
            used.line,
            used.path
        )
    };
    let steps: String = cycle.iter().map(step).collect();
    let more = if knot > cycle.len() {
        format!("; {knot} modules need each other, this is the shortest way around")
    } else {
        String::new()
    };
    let (first, used) = cycle[0];
    Finding::new(
        &used.file,
        used.line,
        format!("modules in a cycle: {steps}{first}{more}"),
    )
}

impl Uses {
    fn of(dir: &Path, files: &[(PathBuf, Source)]) -> Self {
        let modules: BTreeSet<String> = files
            .iter()
            .filter_map(|(file, _)| place(dir, file).into_iter().next())
            .collect();
        let reexports = reexports(&modules, files);
        let mut uses = Self::default();
        for (file, source) in files {
            let place = place(dir, file);
            let Some(own) = place.first() else { continue };
            for name in &source.names {
                let Some(first) = from_root(name, place.len()) else {
                    continue;
                };
                let used = modules.get(first).or_else(|| reexports.get(first));
                if let Some(used) = used.filter(|used| *used != own) {
                    let targets = uses.0.entry(own.clone()).or_default();
                    targets.entry(used.clone()).or_insert_with(|| Use {
                        file: file.clone(),
                        line: name.line,
                        path: name.segments.join("::"),
                    });
                }
            }
        }
        uses
    }

    fn targets(&self, module: &str) -> impl Iterator<Item = (&str, &Use)> {
        let targets = self.0.get(module).into_iter().flatten();
        targets.map(|(name, used)| (name.as_str(), used))
    }

    /// Everything that a module needs, however far.
    fn reach<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(module) = open.pop() {
            open.extend(
                self.targets(module)
                    .map(|(name, _)| name)
                    .filter(|name| reached.insert(*name)),
            );
        }
        reached
    }

    /// The modules that this one needs and that need it, with itself.
    fn knot<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut knot = self.reach(module);
        knot.retain(|other| self.reach(other).contains(module));
        knot
    }

    /// The shortest way from a module to itself, as each module with its use of the next.
    fn cycle<'a>(&'a self, module: &'a str) -> Option<Vec<(&'a str, &'a Use)>> {
        let mut open = VecDeque::from([vec![module]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = open.pop_front() {
            for (next, _) in self.targets(way[way.len() - 1]) {
                if next == module {
                    let nexts = way.iter().skip(1).chain([&module]);
                    return Some(
                        way.iter()
                            .zip(nexts)
                            .map(|(from, to)| (*from, &self.0[*from][*to]))
                            .collect(),
                    );
                }
                if seen.insert(next) {
                    open.push_back(way.iter().copied().chain([next]).collect());
                }
            }
        }
        None
    }
}

/// The path of a file's module: `src/a/b.rs` is `a::b`, the root is empty.
fn place(dir: &Path, file: &Path) -> Vec<String> {
    let path = file.strip_prefix(dir).unwrap_or(file).with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    if source::is_root(file) {
        Vec::new()
    } else {
        parts.collect()
    }
}

/// The first segment below the root of a name that is written from the root or leads up to it.
fn from_root(name: &Name, depth: usize) -> Option<&str> {
    let supers = name
        .segments
        .iter()
        .take_while(|segment| *segment == "super")
        .count();
    let below = if name.segments[0] == "crate" {
        1
    } else if supers == depth + name.depth {
        supers
    } else {
        return None;
    };
    name.segments.get(below).map(String::as_str)
}

/// What the root re-exports, and from which of its modules.
fn reexports(modules: &BTreeSet<String>, files: &[(PathBuf, Source)]) -> BTreeMap<String, String> {
    let mut reexports = BTreeMap::new();
    for (_, source) in files.iter().filter(|(file, _)| source::is_root(file)) {
        for (at, name) in source.names.iter().enumerate().filter(|(_, name)| name.imported) {
            let from = name
                .segments
                .iter()
                .find(|segment| *segment != "crate" && *segment != "self");
            let renamed = source
                .names
                .get(at + 1)
                .filter(|next| next.imported && next.segments.last().is_some_and(|n| n == "as"));
            let known = match renamed {
                Some(_) => source.names.get(at + 2).and_then(|new| new.segments.last()),
                None => name.segments.last(),
            };
            if let (Some(from), Some(known)) = (from, known)
                && modules.contains(from)
            {
                reexports.insert(known.clone(), from.clone());
            }
        }
    }
    reexports
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository with one crate of these files.
    fn crate_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Repo) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("crates/small");
        for (name, text) in files.iter().chain(&[("../Cargo.toml", "")]) {
            let file = root.join("src").join(name);
            fs::create_dir_all(root.join("src")).unwrap();
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let root = dir.path().to_owned();
        (dir, Repo { root })
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let (_dir, repo) = crate_of(files);
        let findings = check(&repo).unwrap();
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cycle_is_told_with_each_of_its_uses() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; mod d; pub use c::{C, Other as Renamed};",
            ),
            ("a.rs", "mod deep;"),
            ("a/deep.rs", "use super::super::b::B;\nuse crate::d::D;"),
            ("b.rs", "\nfn f() { super::Renamed::new() }"),
            ("c.rs", "mod inside {\n\n use super::super::a::A; }"),
            ("d.rs", ""),
        ];
        assert_eq!(
            found(&files),
            [
                "crates/small/src/a/deep.rs:1: modules in a cycle: a (crates/small/src/a/deep.rs:1 super::super::b::B) → \
              b (crates/small/src/b.rs:2 super::Renamed::new) → c (crates/small/src/c.rs:3 super::super::a::A) → a"
            ]
        );
    }

    #[test]
    fn of_many_cycles_in_one_knot_the_shortest_is_told() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::{a::A, b::B};"),
        ];
        let found = found(&files);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("cycle: b (") && found[0].contains("→ c ("),
            "{}",
            found[0]
        );
        assert!(found[0].contains("3 modules need each other"), "{}", found[0]);
    }

    #[test]
    fn a_line_is_none() {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod lab; pub use a::A;\n#[cfg(test)] mod check;",
            ),
            ("a.rs", "mod deep; use crate::b::B;"),
            ("a/deep.rs", "use super::A; use self::b::X;"),
            (
                "b.rs",
                "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse crate::a::A;\nuse std::a;",
            ),
            ("b/tests.rs", "use crate::A;"),
            ("check.rs", "use crate::a::A;"),
            ("lab.rs", "use crate::a::A;"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }
}
