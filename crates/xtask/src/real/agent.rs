//! The agent of one site, as a process.

use std::{
    fs::File,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// What the configuration of an agent says besides the mesh.
pub(crate) struct AgentConfig {
    /// The site's name.
    pub(crate) name: String,
    /// Where the agent listens for the other sites.
    pub(crate) peer: SocketAddr,
    /// Keys at the root of the file, such as `glue = "…"`, one per line.
    pub(crate) root: String,
    /// Limits that differ from those of all suites.
    pub(crate) limits: &'static [(&'static str, u64)],
    /// Names and addresses for a certificate of its listeners, `<site>-tls.pem`, which `tls = "mesh"` takes; none
    /// without TLS.
    pub(crate) listener: &'static [&'static str],
    /// Tables such as `[services.A]`; files that they name are beside the configuration, or absolute.
    pub(crate) tables: String,
}

/// A running agent. It ends with its handle, and with this program however that ends.
pub(crate) struct Agent {
    name: String,
    log: PathBuf,
    process: Child,
}

impl Agent {
    pub(crate) fn spawn(program: &Path, name: &str, config: &Path, log: &Path) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let process = Command::new(program)
            .args(["run", "--exit-with-stdin", "-c"])
            .arg(config)
            .env_remove("CHEOPS_CONFIG")
            .env_remove("CHEOPS_ADMIN")
            .env_remove("CHEOPS_LOG")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(output)
            // A group of its own: Ctrl-C is for this program, which then stops its children.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            process,
        })
    }

    /// An error with its log if the agent is gone.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(status) = self.process.try_wait()? {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            bail!("the agent of {} ended with {status}:\n{log}", self.name);
        }
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
