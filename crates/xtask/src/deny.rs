//! Bans, licences and sources of all dependencies, by cargo-deny.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    command::{cargo, find_program, succeed},
    repo::Repo,
};

pub(crate) fn run(repo: &Repo) -> Result<ExitCode> {
    if find_program("cargo-deny").is_none() {
        eprintln!("cargo-deny is missing; installing it takes some minutes");
        succeed(cargo(&repo.root).args(["install", "cargo-deny", "--locked"]))?;
    }
    succeed(cargo(&repo.root).args(["deny", "check", "bans", "licenses", "sources"]))?;
    Ok(ExitCode::SUCCESS)
}
