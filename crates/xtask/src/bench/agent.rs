//! The agent as a plain proxy of one service.

use std::{net::SocketAddr, path::Path};

use anyhow::Result;

use super::{
    contender::write,
    server::{Server, free_address},
};

pub(super) fn start(
    program: &Path,
    core: usize,
    public: SocketAddr,
    upstream: SocketAddr,
    dir: &Path,
) -> Result<Server> {
    start_with(program, &[], core, public, upstream, dir)
}

/// Like [`start`], with arguments in front of the agent's own: `program` may be one that runs the agent.
pub(super) fn start_with(
    program: &Path,
    before: &[&str],
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
    let args = [before, &["run", "-c", &file]].concat();
    Server::start(program, &args, core, public, dir)
}
