//! Scenarios, one after the other, and the table of what was seen.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use super::{Interrupt, Options};

const POLL: Duration = Duration::from_millis(100);

/// One thing that a suite shows about running sites `W`.
pub(crate) struct Scenario<W> {
    /// What `--only` selects.
    pub(crate) name: &'static str,
    /// What it shows, in words of the application's user.
    pub(crate) shows: &'static str,
    /// Does it and returns what was seen, in a line. It leaves the links healed, also when it fails: the suite
    /// sees to that with [`World::restore`].
    pub(crate) play: fn(&mut W) -> Result<String>,
}

/// Running sites that scenarios share.
pub(crate) trait World {
    /// Brings back what a failed scenario may have left: links, agents, services.
    fn restore(&mut self) -> Result<()>;
    /// How to reach the sites by hand, for `--keep`.
    fn describe(&self) -> String;
}

/// The scenarios of one application.
pub(crate) struct Suite<W: 'static> {
    pub(crate) application: &'static str,
    pub(crate) scenarios: Vec<&'static Scenario<W>>,
}

struct Row {
    name: &'static str,
    seconds: f64,
    result: Result<String>,
}

impl<W: World> Suite<W> {
    /// What the options select, which must be something.
    pub(crate) fn select(self, options: &Options) -> Result<Self> {
        let names: Vec<_> = self.scenarios.iter().map(|scenario| scenario.name).collect();
        // A whole name means itself, also where it is a part of others.
        let means = |part: &String, name: &str| {
            if names.contains(&part.as_str()) {
                part == name
            } else {
                name.contains(part.as_str())
            }
        };
        let wanted =
            |name: &str| options.only.is_empty() || options.only.iter().any(|part| means(part, name));
        let scenarios: Vec<_> = self
            .scenarios
            .into_iter()
            .filter(|scenario| wanted(scenario.name))
            .collect();
        if scenarios.is_empty() {
            bail!("no scenario is called like that; --list shows them");
        }
        Ok(Self {
            application: self.application,
            scenarios,
        })
    }

    /// For `--list`.
    pub(crate) fn list(&self) {
        let width = self
            .scenarios
            .iter()
            .map(|s| s.name.len())
            .max()
            .unwrap_or_default();
        for scenario in &self.scenarios {
            println!("{:width$}  {}", scenario.name, scenario.shows);
        }
    }

    /// Plays all scenarios, prints the table, and keeps the logs below `dir` if one failed.
    pub(crate) fn play(
        &self,
        world: &mut W,
        interrupt: &Interrupt,
        options: &Options,
        dir: &Path,
    ) -> Result<ExitCode> {
        let mut rows = Vec::new();
        for scenario in &self.scenarios {
            if interrupt.is_asked() {
                break;
            }
            eprintln!("- {}: {}", scenario.name, scenario.shows);
            let start = Instant::now();
            let result = (scenario.play)(world);
            let result = match world.restore() {
                Err(error) if result.is_ok() => Err(error.context("what it left could not be undone")),
                _ => result,
            };
            if let Err(error) = &result {
                eprintln!("  FAILED: {}", indent(&format!("{error:#}")));
            }
            rows.push(Row {
                name: scenario.name,
                seconds: start.elapsed().as_secs_f64(),
                result,
            });
        }
        let failed = rows.iter().filter(|row| row.result.is_err()).count();
        println!("{}", table(&rows));
        println!(
            "{}: {} of {} scenarios hold, {:.0} s",
            self.application,
            rows.len() - failed,
            self.scenarios.len(),
            rows.iter().map(|row| row.seconds).sum::<f64>()
        );
        if failed > 0 {
            println!("logs: {}", keep_logs(self.application, dir)?.display());
        }
        if options.keep && !interrupt.is_asked() {
            println!("\n{}\n\nCtrl-C ends it", world.describe());
            while !interrupt.is_asked() {
                thread::sleep(POLL);
            }
        }
        let all = failed == 0 && rows.len() == self.scenarios.len();
        Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
    let lines = rows.iter().map(|row| {
        let (result, seen) = match &row.result {
            Ok(seen) => ("ok  ", seen.clone()),
            // The whole error was told when it happened.
            Err(error) => (
                "FAIL",
                format!("{error}").lines().next().unwrap_or_default().to_owned(),
            ),
        };
        format!("{:width$}  {result}  {:5.1} s  {seen}", row.name, row.seconds)
    });
    let head = format!("\n{:width$}  RESULT    TIME  SEEN", "SCENARIO");
    std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
}

fn indent(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// Copies all logs below `dir` to a directory that stays, named by their paths.
fn keep_logs(application: &str, dir: &Path) -> Result<PathBuf> {
    let kept = tempfile::Builder::new()
        .prefix(&format!("cheops-real-{application}-logs-"))
        .tempdir()?
        .keep();
    let mut open = vec![dir.to_owned()];
    while let Some(inside) = open.pop() {
        for entry in fs::read_dir(&inside)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let name = path.strip_prefix(dir)?.to_string_lossy().replace('/', "-");
                fs::copy(&path, kept.join(name))?;
            }
        }
    }
    Ok(kept)
}
