//! The agent as a plain proxy of one service.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{
    contender::write,
    server::{Server, free_address},
};
use crate::{
    command::{cargo, succeed},
    repo::Repo,
};

/// Builds the agent with a profile and returns where it is.
pub(crate) fn build(repo: &Repo, profile: &str) -> Result<PathBuf> {
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

/// Where cargo puts what it builds with a profile.
pub(super) fn built(repo: &Repo, profile: &str) -> Result<PathBuf> {
    let dir = if profile == "dev" { "debug" } else { profile };
    Ok(repo.target_dir()?.join(dir))
}

pub(super) fn start(
    program: &Path,
    core: usize,
    public: SocketAddr,
    upstream: SocketAddr,
    dir: &Path,
) -> Result<Server> {
    let internal = free_address()?;
    let config = format!(
        "site = \"bench\"
data_dir = \"{dir}\"
workers = 1
glue = \"plain\"

[services.web]
public = \"{public}\"
internal = \"{internal}\"
upstream = \"http://{upstream}\"
",
        dir = dir.display(),
    );
    let file = write(dir, "cheops.toml", &config)?;
    Server::start(program, &["run", "-c", &file], core, public, dir)
}
