//! Sites of real processes, for suites that disturb or attack them: agents, applications and their certificates.

pub(crate) mod http;
mod port;

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::command::succeed;
pub(crate) use port::Port;

const POLL: Duration = Duration::from_millis(20);

/// An agent in a directory with its configuration, whether it runs or not.
pub(crate) struct Agent {
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
    process: Option<Child>,
}

/// An example application.
pub(crate) struct Application {
    pub(crate) port: Port,
    process: Child,
}

impl Agent {
    pub(crate) fn new(program: &Path, dir: PathBuf) -> Self {
        Self {
            program: program.to_owned(),
            dir,
            process: None,
        }
    }

    pub(crate) fn admin_socket(&self) -> PathBuf {
        self.dir.join("data/admin.sock")
    }

    /// `dress` gives the process what else it is to have.
    pub(crate) fn start(&mut self, dress: impl FnOnce(&mut Command)) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("agent.log"))?;
        let mut command = Command::new(&self.program);
        command
            .args(["run", "--exit-with-stdin", "-c", "cheops.toml"])
            .current_dir(&self.dir)
            .env_remove("CHEOPS_CONFIG")
            .env_remove("CHEOPS_ADMIN")
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // A group of its own: Ctrl-C is for this program, which then ends its children.
            .process_group(0);
        dress(&mut command);
        self.process = Some(command.spawn().context("the agent cannot be started")?);
        Ok(())
    }

    /// None while it does not run.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The id that it had, if it ran.
    pub(crate) fn kill(&mut self) -> Option<u32> {
        let mut process = self.process.take()?;
        let _ = process.kill();
        let _ = process.wait();
        Some(process.id())
    }

    /// An error, with what its log says last, when it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        if let Some(status) = process.try_wait()? {
            let log = fs::read_to_string(self.dir.join("agent.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(20)..].join("\n");
            bail!("the agent of {} ended with {status}:\n{tail}", self.dir.display());
        }
        Ok(())
    }

    /// Waits until the agent sees the other sites as they are.
    pub(crate) fn wait_for_sites(
        &mut self,
        until: Instant,
        are_right: impl Fn(&[Value]) -> bool,
    ) -> Result<()> {
        loop {
            let answer = http::admin(&self.admin_socket(), "/v1/sites").unwrap_or_default();
            if answer["sites"].as_array().is_some_and(|sites| are_right(sites)) {
                return Ok(());
            }
            self.check()?;
            if Instant::now() > until {
                bail!(
                    "{} does not see the other sites: see agent.log there",
                    self.dir.display()
                );
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Application {
    /// `number` tells its ids from those of the other sites.
    pub(crate) fn start(program: &Path, dir: &Path, site: &str, number: usize) -> Result<Self> {
        let port = Port::reserve()?;
        let process = Command::new(program)
            .args(["example-app", "B", "--exit-with-stdin", "--string", site])
            .args(["--listen", &port.addr.to_string()])
            .args(["--id-base", &(1 + 1_000_000 * (number + 1)).to_string()])
            .arg("--data-dir")
            .arg(dir.join("B"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("application.log"))?)
            .process_group(0)
            .spawn()?;
        Ok(Self { port, process })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// An error when it has ended: no suite ends one in good order.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("an application ended with {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Makes a mesh, and below `dir` a directory for each site with its certificate.
pub(crate) fn certify(program: &Path, dir: &Path, sites: &[&str]) -> Result<()> {
    let ca = dir.join("ca");
    let mut init = Command::new(program);
    succeed(init.args(["ca", "init", "--dir"]).arg(&ca).stdout(Stdio::null()))?;
    for site in sites {
        let mut issue = Command::new(program);
        issue.args(["ca", "issue", site, "--dir"]).arg(&ca);
        succeed(issue.arg("--out").arg(dir.join(site)).stdout(Stdio::null()))?;
    }
    Ok(())
}
