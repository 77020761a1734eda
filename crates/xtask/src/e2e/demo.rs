//! `cheops demo` as a process, and who its agents are.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// A demo. It ends with its standard input, so that it never outlives this program.
pub(crate) struct Demo {
    child: Child,
    /// Service B of the first site, as users reach it.
    pub(crate) entry: SocketAddr,
    /// Its service A.
    pub(crate) entry_a: SocketAddr,
    pub(crate) agents: Vec<Agent>,
}

pub(crate) struct Agent {
    pub(crate) site: String,
    pub(crate) pid: u32,
    pub(crate) admin: PathBuf,
    /// Its service B, as users reach it.
    pub(crate) b: SocketAddr,
}

#[derive(Deserialize)]
struct Map {
    sites: Vec<Site>,
}

#[derive(Deserialize)]
struct Site {
    name: String,
    services: Services,
    admin: PathBuf,
}

#[derive(Deserialize)]
struct Services {
    #[serde(rename = "A")]
    a: Service,
    #[serde(rename = "B")]
    b: Service,
}

#[derive(Deserialize)]
struct Service {
    public: SocketAddr,
}

#[derive(Deserialize)]
struct Status {
    pid: u32,
}

impl Demo {
    /// Two sites.
    pub(crate) fn start(program: &Path, rtt_ms: u16) -> Result<Self> {
        Self::of(program, 2, rtt_ms)
    }

    /// So many sites in a line, neighbours `rtt_ms` apart.
    pub(crate) fn of(program: &Path, sites: u8, rtt_ms: u16) -> Result<Self> {
        let mut child = Command::new(program)
            .args(["demo", "--json", "--exit-with-stdin"])
            .args(["--sites", &sites.to_string()])
            .args(["--rtt-ms", &rtt_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{} cannot be started", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let map: Map = serde_json::from_str(&line)
            .with_context(|| format!("the demo did not print where its sites are, but `{line}`"))?;
        let Some(Site { services, .. }) = map.sites.first() else {
            bail!("the demo has no sites");
        };
        let (entry_a, entry) = (services.a.public, services.b.public);
        let agents = map.sites.iter().map(|site| agent(program, site));
        let agents = agents.collect::<Result<Vec<_>>>()?;
        Ok(Self {
            child,
            entry,
            entry_a,
            agents,
        })
    }

    /// Ends the demo and fails unless it ends well.
    pub(crate) fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the demo ended with {status}"),
                None if Instant::now() > deadline => {
                    bail!("the demo did not end within {} s", STOP_TIMEOUT.as_secs())
                }
                None => thread::sleep(POLL),
            }
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Its children end when their pipes close.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agent(program: &Path, site: &Site) -> Result<Agent> {
    let output = Command::new(program)
        .args(["status", "--json", "--admin"])
        .arg(&site.admin)
        .output()?;
    let status: Status = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("the agent of {} does not tell its status: {output:?}", site.name))?;
    Ok(Agent {
        site: site.name.clone(),
        pid: status.pid,
        admin: site.admin.clone(),
        b: site.services.b.public,
    })
}
