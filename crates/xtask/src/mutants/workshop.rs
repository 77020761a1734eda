//! A copy of the engine and its simulator that may be broken: the repository itself is never changed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::table::Mutant;
use crate::{command, repo::Repo};

/// Those of names are so short that as many as the ordinary test run plays cost nothing.
const NAME_SCHEDULES: u64 = 3_000;
const THREADS: usize = 2;
/// Those of the engine.
const TESTS: &str = "crates/replica/tests";
const ENGINE_TESTS: &str = "engine";
/// A mutant that takes so many times as long as the engine itself does not come to an end.
const PATIENCE: u32 = 10;
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// What is built in the copy: fast to build above all, as each mutant is played once.
const PROFILE: &str = "
[profile.dev]
debug = false
incremental = true
opt-level = 1

[profile.dev.package.'*']
opt-level = 2
";

pub(super) struct Workshop {
    repo: PathBuf,
    dir: PathBuf,
    schedules: u64,
    except: Vec<u64>,
    patience: Duration,
}

/// How the schedules and the engine's tests ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    Passed,
    Noticed(Notice),
    /// With the compiler's first words.
    DoesNotBuild(String),
}

/// What shows that something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Notice {
    Schedule {
        seed: u64,
        invariant: String,
    },
    /// A test of the engine, by its name.
    Test(String),
    /// It was stopped.
    Endless,
    /// It ended without saying why.
    Breakdown,
}

impl Workshop {
    /// Copies the crates and plays the engine as it is, which must pass.
    pub(super) fn open(repo: &Repo, schedules: u64, except: &[u64]) -> Result<Self> {
        let mut workshop = Self {
            repo: repo.root.clone(),
            dir: repo.root.join("target/mutants"),
            schedules,
            except: except.to_vec(),
            patience: Duration::from_secs(3600),
        };
        workshop.copy()?;
        if let Ending::DoesNotBuild(what) = workshop.build()? {
            bail!("the engine does not build in {}: {what}", workshop.dir.display());
        }
        let begin = Instant::now();
        for ending in [workshop.play(false)?, workshop.play(true)?, workshop.test()?] {
            if ending != Ending::Passed {
                bail!("the engine fails without any mutant: {ending:?}");
            }
        }
        workshop.patience = PATIENCE_MIN.max(begin.elapsed() * PATIENCE);
        Ok(workshop)
    }

    /// Breaks the copy, plays it and repairs it again. What is said to kill the mutant comes first.
    pub(super) fn try_out(&self, mutant: &Mutant, killer: Option<&Notice>) -> Result<Ending> {
        let original = fs::read_to_string(self.repo.join(mutant.path()))?;
        let broken = match mutant.apply(&original) {
            Ok(broken) => broken,
            Err(what) => bail!("{}: {what}", mutant.name),
        };
        let file = self.dir.join(mutant.path());
        fs::write(&file, broken)?;
        let ending = self.build_and_play(mutant.is_about_names(), killer);
        fs::write(&file, original)?;
        ending
    }

    /// The schedules first: what they notice needs no test that was made for it.
    fn build_and_play(&self, is_about_names: bool, killer: Option<&Notice>) -> Result<Ending> {
        let mut ending = self.build()?;
        if ending == Ending::Passed
            && let Some(killer) = killer
        {
            ending = self.try_again(killer, is_about_names)?;
        }
        if ending == Ending::Passed {
            ending = self.play(is_about_names)?;
        }
        if ending == Ending::Passed {
            ending = self.test()?;
        }
        Ok(ending)
    }

    fn copy(&self) -> Result<()> {
        let crates = closure(&self.repo, "sim")?;
        // What was there before may be a crate of an older commit. The build's own directory stays.
        let old = self.dir.join("crates");
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
        for name in &crates {
            let (from, to) = (self.repo.join("crates").join(name), old.join(name));
            fs::create_dir_all(&to)?;
            fs::copy(from.join("Cargo.toml"), to.join("Cargo.toml"))?;
            copy_dir(&from.join("src"), &to.join("src"))?;
        }
        copy_dir(&self.repo.join(TESTS), &self.dir.join(TESTS))?;
        fs::create_dir_all(old.join("sim/tests"))?;
        for table in ["crates/sim/tests/known.txt", "crates/sim/tests/pinned.txt"] {
            fs::copy(self.repo.join(table), self.dir.join(table))?;
        }
        let root = fs::read_to_string(self.repo.join("Cargo.toml"))?;
        fs::write(self.dir.join("Cargo.toml"), manifest(&root)?)?;
        fs::copy(self.repo.join("Cargo.lock"), self.dir.join("Cargo.lock"))?;
        Ok(())
    }

    fn build(&self) -> Result<Ending> {
        let mut build = command::cargo(&self.dir);
        build
            .args(["build", "--quiet", "-p", "cheops-sim"])
            .env("CARGO_TARGET_DIR", self.dir.join("target"))
            .env("RUSTFLAGS", "-Awarnings");
        let output = build.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(Ending::Passed);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said.lines().find(|line| line.starts_with("error"));
        Ok(Ending::DoesNotBuild(error.unwrap_or("error").to_owned()))
    }

    /// Whether what killed the mutant before does so again.
    fn try_again(&self, killer: &Notice, is_about_names: bool) -> Result<Ending> {
        let seed = match killer {
            Notice::Schedule { seed, .. } => *seed,
            Notice::Test(name) => {
                let (kind, filter) = (["--test", ENGINE_TESTS], [name, "--exact"]);
                return self.ending(self.tests().args(kind).arg("--").args(filter), broken_test);
            }
            Notice::Endless | Notice::Breakdown => return Ok(Ending::Passed),
        };
        let mut play = self.player();
        if is_about_names {
            play.arg("--names");
        }
        if seed < self.schedules {
            play.args(["--seed", &seed.to_string(), "--schedules", "1"]);
        } else {
            play.args(["--pinned", "--schedules", "0"]);
        }
        self.ending(&mut play, broken_schedule)
    }

    fn player(&self) -> Command {
        let mut play = Command::new(self.dir.join("target/debug/cheops-sim"));
        play.arg("--brief");
        play
    }

    fn tests(&self) -> Command {
        let mut test = command::cargo(&self.dir);
        test.args(["test", "-p", "cheops-replica"])
            .env("CARGO_TARGET_DIR", self.dir.join("target"))
            .env("RUSTFLAGS", "-Awarnings");
        test
    }

    fn play(&self, is_about_names: bool) -> Result<Ending> {
        let mut play = self.player();
        let schedules = if is_about_names {
            play.arg("--names");
            NAME_SCHEDULES
        } else {
            // The ordinary run plays those that once failed too.
            play.arg("--pinned");
            for seed in &self.except {
                play.args(["--except", &seed.to_string()]);
            }
            self.schedules
        };
        play.args(["--schedules", &schedules.to_string()])
            .args(["--threads", &THREADS.to_string()]);
        self.ending(&mut play, broken_schedule)
    }

    /// The engine's own tests, which the ordinary test run has too.
    fn test(&self) -> Result<Ending> {
        self.ending(self.tests().arg("--tests"), broken_test)
    }

    fn ending(&self, command: &mut Command, first_notice: fn(&str) -> Option<Notice>) -> Result<Ending> {
        let Some(output) = output_within(command, self.patience)? else {
            return Ok(Ending::Noticed(Notice::Endless));
        };
        if output.status.success() {
            return Ok(Ending::Passed);
        }
        let said = String::from_utf8_lossy(&output.stdout);
        Ok(Ending::Noticed(first_notice(&said).unwrap_or(Notice::Breakdown)))
    }
}

/// The end of a program, or none when it had to be stopped. What it prints must fit into a pipe.
fn output_within(command: &mut Command, patience: Duration) -> Result<Option<Output>> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = piped
        .stderr(Stdio::null())
        .spawn()
        .context("it cannot be started")?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(Some(child.wait_with_output()?))
}

/// What the simulator says of its first failure: `seed 7: order: m0 should be ...`.
fn broken_schedule(said: &str) -> Option<Notice> {
    let line = said.lines().find_map(|line| line.strip_prefix("seed "))?;
    let (seed, what) = line.split_once(": ")?;
    let invariant = what.split(':').next().unwrap_or_default().to_owned();
    let seed = seed.parse().ok()?;
    Some(Notice::Schedule { seed, invariant })
}

/// The first test that failed: `test names::a_name ... FAILED`.
fn broken_test(said: &str) -> Option<Notice> {
    let failed = |line: &str| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(Notice::Test(name.to_owned()))
    };
    said.lines().find_map(failed)
}

/// A crate and those of the workspace that it depends on, by directory.
fn closure(repo: &Path, first: &str) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![first.to_owned()];
    while let Some(name) = open.pop() {
        let file = repo.join("crates").join(&name).join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        open.extend(
            own_dependencies(&text)?
                .into_iter()
                .filter(|name| !found.contains(name)),
        );
        found.insert(name);
    }
    Ok(found)
}

fn own_dependencies(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse()?;
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = dependencies.into_iter().flat_map(toml::Table::keys);
    Ok(names
        .filter_map(|name| Some(name.strip_prefix("cheops-")?.to_owned()))
        .collect())
}

/// The workspace of the copy: the repository's dependencies and lints, other crates and profiles.
fn manifest(root: &str) -> Result<String> {
    let mut manifest: toml::Table = root.parse()?;
    let workspace = manifest.get_mut("workspace").and_then(toml::Value::as_table_mut);
    let workspace = workspace.context("Cargo.toml has no workspace")?;
    workspace.remove("default-members");
    workspace.remove("exclude");
    let profiles: toml::Table = PROFILE.parse()?;
    manifest.remove("profile");
    manifest.extend(profiles);
    Ok(toml::to_string(&manifest)?)
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_dir(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_read() {
        let said = "seed 7: order: m0 should be\nseed 8: equal: other";
        let (seed, invariant) = (7, "order".to_owned());
        assert_eq!(broken_schedule(said), Some(Notice::Schedule { seed, invariant }));
        let said = "test a::b ... ok\ntest a::c ... FAILED\ntest a::d ... FAILED";
        assert_eq!(broken_test(said), Some(Notice::Test("a::c".to_owned())));
    }

    #[test]
    fn the_copy_has_what_the_simulator_needs() {
        let repo = Repo::find().unwrap();
        let crates = closure(&repo.root, "sim").unwrap();
        assert!(
            crates.contains("replica") && crates.contains("types"),
            "{crates:?}"
        );
        let root = manifest(&repo.read("Cargo.toml").unwrap()).unwrap();
        assert!(root.contains("opt-level = 1") && !root.contains("default-members"));
    }
}
