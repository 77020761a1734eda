//! The commands in the documentation, run.
//!
//! In a block ```` ```console check ```` every command runs in a shell, and its output (standard
//! output, then standard error) must be what the page shows; `...` stands for any lines, or any
//! text within a line. `exit=2` in the block's first line is the exit code that its commands must
//! have. The blocks of a page run in order in one directory, empty at the start; a block with
//! `file=<path>` in its first line is written there. A block ```` ```console demo ```` runs while a
//! `cheops demo` does: its addresses are the demo's usual ones, and `CHEOPS_ADMIN` leads to site1.
//! A block ```` ```console real ```` is run by a suite of `cargo xtask real`, which has what it needs.
//! In any other `console` block the `cheops` commands are asked for their help only, which shows
//! that the subcommand and its options exist.

mod console;
mod demo;
mod stage;

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    command::{cargo, succeed},
    repo::{Finding, Repo},
    verify::markdown,
};
pub(crate) use console::words;
use console::{Mode, Session, Step, matches};
use demo::Demo;
pub(crate) use stage::Stage;

const PROGRAM: &str = "cheops";
/// Away from a terminal curl shows its progress; and no page may keep the check waiting.
const PRELUDE: &str = "curl() { command curl --silent --show-error --max-time 20 \"$@\"; }\n";

pub(crate) fn run(repo: &Repo) -> Result<ExitCode> {
    succeed(cargo(&repo.root).args(["build", "--quiet", "--package", "cheops-agent"]))?;
    let mut runner = Runner::new(&repo.target_dir()?.join("debug"))?;
    for file in repo.files(".", "md")? {
        runner.page(&file, &repo.read(&file)?)?;
    }
    for finding in &runner.findings {
        println!("{finding}");
    }
    println!(
        "{} commands of the documentation ran, {} of them with the demo, {} more exist; {} findings",
        runner.ran,
        runner.with_demo,
        runner.asked,
        runner.findings.len()
    );
    Ok(if runner.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs a page with its ```` ```console real ```` blocks; returns how many commands ran and what is not as it says.
pub(crate) fn play_real(repo: &Repo, page: &str, stage: Stage) -> Result<(usize, Vec<Finding>)> {
    let mut runner = Runner::new(&stage.program_dir)?;
    runner.stage = Some(stage);
    runner.page(Path::new(page), &repo.read(page)?)?;
    Ok((runner.ran, runner.findings))
}

struct Runner {
    program: PathBuf,
    /// `PATH`, with the program's directory first.
    path: OsString,
    /// Started when the first block needs it.
    demo: Option<Demo>,
    /// There for the pages that need a suite.
    stage: Option<Stage>,
    findings: Vec<Finding>,
    ran: usize,
    with_demo: usize,
    asked: usize,
}

impl Runner {
    fn new(program_dir: &Path) -> Result<Self> {
        let inherited = env::var_os("PATH").unwrap_or_default();
        let dirs = [program_dir.to_owned()]
            .into_iter()
            .chain(env::split_paths(&inherited));
        Ok(Self {
            program: program_dir.join(PROGRAM),
            path: env::join_paths(dirs)?,
            demo: None,
            stage: None,
            findings: Vec::new(),
            ran: 0,
            with_demo: 0,
            asked: 0,
        })
    }

    fn page(&mut self, file: &Path, text: &str) -> Result<()> {
        let dir = tempfile::tempdir()?;
        for block in markdown::blocks(text) {
            if let Some(path) = console::file(&block) {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap_or(dir.path()))?;
                let text = block.lines.join("\n") + "\n";
                fs::write(
                    path,
                    self.stage
                        .as_ref()
                        .map_or(text.clone(), |stage| stage.to_sites(&text)),
                )?;
            }
            let Some(session) = Session::read(&block) else {
                continue;
            };
            for step in &session.steps {
                let found = match (session.mode, &self.stage) {
                    (Mode::Check, _) | (Mode::Demo, None) | (Mode::Real, Some(_)) => {
                        self.play(&session, step, dir.path())?
                    }
                    (Mode::Shown | Mode::Real, None) => self.ask(step, dir.path())?,
                    (Mode::Shown | Mode::Demo, Some(_)) => None,
                };
                self.findings
                    .extend(found.map(|what| Finding::new(file, step.line, what)));
            }
        }
        Ok(())
    }

    /// Runs a command; returns what is not as the page says.
    fn play(&mut self, session: &Session, step: &Step, dir: &Path) -> Result<Option<String>> {
        let mut shell = self.clean(Path::new("sh"), dir);
        let (code, output) = if let Some(stage) = &mut self.stage {
            let (code, output) = stage.run(shell.arg("-c"), PRELUDE, &step.command)?;
            (code, stage.to_page(&output))
        } else if session.mode == Mode::Demo {
            if self.demo.is_none() {
                self.demo = Some(Demo::start(&self.program)?);
            }
            let map = &self.demo.as_ref().context("the demo was started")?.map;
            self.with_demo += 1;
            shell.env("CHEOPS_ADMIN", map.admin());
            let (code, output) = output_of(
                shell
                    .arg("-c")
                    .arg(PRELUDE.to_owned() + &map.to_demo(&step.command)),
            )?;
            (code, map.to_page(&output))
        } else {
            output_of(shell.arg("-c").arg(PRELUDE.to_owned() + &step.command))?
        };
        self.ran += 1;
        Ok(if code != Some(session.exit_code) {
            Some(format!(
                "`{}` ended with {code:?} instead of {}:\n{output}",
                step.command, session.exit_code
            ))
        } else if matches(&step.output, &output) {
            None
        } else {
            Some(format!("`{}` printed something else:\n{output}", step.command))
        })
    }

    /// Asks for the help of a command, if it is one of the program's.
    fn ask(&mut self, step: &Step, dir: &Path) -> Result<Option<String>> {
        let Some(words) = own_command(step) else {
            return Ok(None);
        };
        let mut command = self.clean(&self.program, dir);
        let (code, output) = output_of(command.args(&words[1..]).arg("--help"))?;
        if code == Some(0) {
            self.asked += 1;
            return Ok(None);
        }
        let what = format!("`{}` is no command of {PROGRAM}:\n{output}", step.command);
        Ok(Some(what))
    }

    /// A command that the caller's environment does not change.
    fn clean(&self, program: &Path, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .env("PATH", &self.path)
            .env_remove("CHEOPS_CONFIG")
            .env_remove("CHEOPS_ADMIN")
            .env_remove("CHEOPS_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }
}

fn own_command(step: &Step) -> Option<Vec<String>> {
    words(&step.command).filter(|words| words.first().is_some_and(|word| word == PROGRAM))
}

fn output_of(command: &mut Command) -> Result<(Option<i32>, String)> {
    let output = command
        .output()
        .with_context(|| format!("{} cannot be started", command.get_program().to_string_lossy()))?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

impl Repo {
    /// Where cargo puts what it builds.
    pub(crate) fn target_dir(&self) -> Result<PathBuf> {
        let output = cargo(&self.root)
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .output()
            .context("`cargo metadata` cannot be started")?;
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
        let dir = metadata["target_directory"].as_str();
        Ok(dir.context("`cargo metadata` names no target directory")?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_played_in_one_directory_and_what_differs_is_found() {
        let page = "\
```text file=dir/a.txt
one
```
```console check
$ cat dir/a.txt
one
$ cat dir/a.txt > b.txt
```
```console check exit=3
$ cat b.txt && exit 3
one
$ exit 4
```
```console check
$ echo two
one
```
";
        let mut runner = Runner::new(Path::new("/nonexistent")).unwrap();
        runner.page(Path::new("page.md"), page).unwrap();
        let lines: Vec<_> = runner.findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [12, 15], "{:?}", runner.findings);
        assert_eq!((runner.ran, runner.with_demo), (5, 0));
    }
}
