//! Running programs for a check: inherited output, and an error that names the command.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::repo::Repo;

/// The cargo that runs this program, so that toolchain overrides hold for what it starts. What it told this program of
/// itself does not: build scripts look at it, and would have half of the workspace built once more.
pub(crate) fn cargo(dir: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_told = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_told) {
            command.env_remove(name);
        }
    }
    command.current_dir(dir);
    command
}

/// Builds the agent with a profile and returns where it is.
pub(crate) fn build_agent(repo: &Repo, profile: &str) -> Result<PathBuf> {
    eprintln!("building the agent with the profile `{profile}`");
    succeed(cargo(&repo.root).args([
        "build",
        "--quiet",
        "--package",
        "cheops-agent",
        "--profile",
        profile,
    ]))?;
    Ok(built(repo, profile)?.join("cheops"))
}

/// Which agent a suite plays with.
#[derive(clap::Args)]
pub(crate) struct AgentArgs {
    /// Cargo profile to build the agent with
    #[arg(long, default_value = "release")]
    profile: String,
    /// Use this agent instead of building one
    #[arg(long, alias = "agent", value_name = "FILE", conflicts_with = "profile")]
    program: Option<PathBuf>,
}

impl AgentArgs {
    pub(crate) fn program(&self, repo: &Repo) -> Result<PathBuf> {
        match &self.program {
            Some(program) => existing(program),
            None => build_agent(repo, &self.profile),
        }
    }
}

/// Where a program is that was built already.
pub(crate) fn existing(program: &Path) -> Result<PathBuf> {
    let found = program.canonicalize();
    found.with_context(|| format!("no agent at {}", program.display()))
}

/// Where cargo puts what it builds with a profile.
pub(crate) fn built(repo: &Repo, profile: &str) -> Result<PathBuf> {
    let dir = if profile == "dev" { "debug" } else { profile };
    Ok(repo.target_dir()?.join(dir))
}

/// Runs a command to its end with the caller's terminal.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("`{shown}` cannot be started"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Where a program is, in `PATH` or where Debian keeps servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy();
    let mut shown = program.into_owned();
    for arg in command.get_args() {
        shown.push(' ');
        shown.push_str(&arg.to_string_lossy());
    }
    shown
}
