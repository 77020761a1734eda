//! The commands in the documentation, run.
//!
//! In a block ```` ```console check ```` every command runs, in order, in one empty directory, and
//! its output (standard output, then standard error) must be what the page shows; a line `...` stands for
//! any lines. `exit=2` in the block's first line is the exit code that its commands must have.
//! In any other `console` block the `cheops` commands are asked for their help only, which shows
//! that the subcommand and its options exist.

mod console;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result};

use crate::{
    command::{cargo, succeed},
    repo::{Finding, Repo},
    verify::markdown,
};
use console::{Session, Step, matches, words};

const PROGRAM: &str = "cheops";

pub(crate) fn run(repo: &Repo) -> Result<ExitCode> {
    succeed(cargo(&repo.root).args(["build", "--quiet", "--package", "cheops-agent"]))?;
    let program = repo.target_dir()?.join("debug").join(PROGRAM);
    let mut findings = Vec::new();
    let (mut ran, mut asked) = (0, 0);
    for file in repo.files(".", "md")? {
        for block in markdown::blocks(&repo.read(&file)?) {
            let Some(session) = Session::read(&block) else {
                continue;
            };
            if session.check {
                ran += session.steps.len();
                findings.extend(play(&program, &file, &session)?);
            } else {
                let (known, unknown) = ask(&program, &file, &session)?;
                asked += known;
                findings.extend(unknown);
            }
        }
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "{ran} commands of the documentation ran, {asked} more exist; {} findings",
        findings.len()
    );
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs the commands of a checked block.
fn play(program: &Path, file: &Path, session: &Session) -> Result<Vec<Finding>> {
    let dir = tempfile::tempdir()?;
    let mut findings = Vec::new();
    for step in &session.steps {
        let Some(words) = own_command(step) else {
            let what = format!(
                "only simple `{PROGRAM}` commands can be checked: {}",
                step.command
            );
            findings.push(Finding::new(file, step.line, what));
            continue;
        };
        let (code, output) = execute(program, dir.path(), &words[1..])?;
        if code != Some(session.exit_code) {
            let what = format!(
                "`{}` ended with {code:?} instead of {}:\n{output}",
                step.command, session.exit_code
            );
            findings.push(Finding::new(file, step.line, what));
        } else if !matches(&step.output, &output) {
            let what = format!("`{}` printed something else:\n{output}", step.command);
            findings.push(Finding::new(file, step.line, what));
        }
    }
    Ok(findings)
}

/// Asks for the help of each command of a block; returns how many exist, and the others.
fn ask(program: &Path, file: &Path, session: &Session) -> Result<(usize, Vec<Finding>)> {
    let dir = tempfile::tempdir()?;
    let mut known = 0;
    let mut unknown = Vec::new();
    for step in &session.steps {
        let Some(mut words) = own_command(step) else {
            continue;
        };
        words.push("--help".to_owned());
        let (code, output) = execute(program, dir.path(), &words[1..])?;
        if code == Some(0) {
            known += 1;
        } else {
            let what = format!("`{}` is no command of {PROGRAM}:\n{output}", step.command);
            unknown.push(Finding::new(file, step.line, what));
        }
    }
    Ok((known, unknown))
}

fn own_command(step: &Step) -> Option<Vec<String>> {
    words(&step.command).filter(|words| words.first().is_some_and(|word| word == PROGRAM))
}

fn execute(program: &Path, dir: &Path, args: &[String]) -> Result<(Option<i32>, String)> {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_remove("CHEOPS_CONFIG")
        .env_remove("CHEOPS_ADMIN")
        .env_remove("CHEOPS_LOG")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
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
