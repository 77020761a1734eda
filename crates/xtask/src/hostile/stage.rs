//! Three honest sites of real processes, an application each, and a hostile one that all of them list.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::recorder::Recorder;
use crate::{
    e2e::Memory,
    processes::{self, Application, Port, http},
};

pub(super) const HONEST: [&str; 3] = ["site1", "site2", "site3"];
pub(super) const HOSTILE: &str = "mallory";
/// A site that all list and nobody runs.
pub(super) const GONE: &str = "gone";
/// All of them: each has a name that begins like the first.
pub(super) const ALL_GONE: [&str; 6] = [GONE, "gone2", "gone3", "gone4", "gone5", "gone6"];
/// A site with a certificate of the mesh that nobody lists.
pub(super) const UNLISTED: &str = "outsider";
const SOON: Duration = Duration::from_secs(30);
/// What the glue knows beyond the example application: a list that can be watched, and headers that no client may send.
const NOTES: &str = r#"
[services.C]
stream = ["?watch"]

[services.C.caller]
certificate = { user = "X-Remote-User", group = "X-Remote-Group", strip = ["X-Remote-"] }

[[services.C.resources]]
kind = "note"
collection = "/notes"
item = "/notes/{id}"
list = { items = "/items", watch = { parameter = "since", version = "/version", object = "/object" } }
"#;

pub(super) struct Stage {
    // First, so that agents end before what they are connected to.
    pub(super) agents: Vec<Agent>,
    pub(super) applications: Vec<Application>,
    /// The service C of all sites: it keeps what it was sent.
    pub(super) recorder: Recorder,
    /// The service `vault`, which is for its own site alone.
    pub(super) vault: Recorder,
    /// Whether the agent's configuration can keep a service from other sites.
    pub(super) can_withhold: bool,
    pub(super) dir: PathBuf,
    gone: Vec<Port>,
}

pub(super) struct Agent {
    pub(super) site: &'static str,
    pub(super) peer: Port,
    /// The client ports of the services.
    pub(super) b: Port,
    pub(super) c: Port,
    process: processes::Agent,
}

impl Stage {
    /// Starts everything below `dir` and waits until the honest sites see each other and the hostile one.
    pub(super) fn start(program: &Path, glue: &str, dir: &Path, hostile: SocketAddr) -> Result<Self> {
        let gone = ALL_GONE.iter().map(|_| Port::reserve()).collect::<Result<_>>()?;
        let mut stage = Self {
            agents: Vec::new(),
            applications: Vec::new(),
            recorder: Recorder::start()?,
            vault: Recorder::start()?,
            can_withhold: false,
            dir: dir.to_owned(),
            gone,
        };
        for (number, site) in HONEST.into_iter().enumerate() {
            let own = dir.join(site);
            fs::create_dir_all(&own)?;
            fs::write(own.join("glue.toml"), format!("{glue}{NOTES}"))?;
            stage
                .applications
                .push(Application::start(program, &own, site, number)?);
            stage.agents.push(Agent {
                site,
                peer: Port::reserve()?,
                b: Port::reserve()?,
                c: Port::reserve()?,
                process: processes::Agent::new(program, own),
            });
        }
        stage.can_withhold = stage.configure(hostile, true)?;
        if !stage.can_withhold {
            stage.configure(hostile, false)?;
        }
        stage.agents.iter_mut().try_for_each(Agent::start)?;
        stage.ready()?;
        Ok(stage)
    }

    /// Writes the configurations; false when the agent does not understand them.
    fn configure(&self, hostile: SocketAddr, withholds: bool) -> Result<bool> {
        let mut others: Vec<_> = self
            .agents
            .iter()
            .map(|agent| (agent.site, agent.peer.addr))
            .collect();
        others.push((HOSTILE, hostile));
        others.extend(ALL_GONE.into_iter().zip(self.gone.iter().map(|port| port.addr)));
        for (agent, application) in self.agents.iter().zip(&self.applications) {
            let text = self.config(agent, application, &others, withholds)?;
            fs::write(agent.process.dir.join("cheops.toml"), text)?;
        }
        let mut check = Command::new(self.agents[0].program());
        check
            .args(["config", "check", "-c"])
            .arg(self.agents[0].process.dir.join("cheops.toml"));
        let checked = check.stdin(Stdio::null()).output()?;
        if !checked.status.success() && !withholds {
            bail!(
                "the configuration is refused: {}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
        Ok(checked.status.success())
    }

    fn config(
        &self,
        agent: &Agent,
        application: &Application,
        others: &[(&str, SocketAddr)],
        withholds: bool,
    ) -> Result<String> {
        use std::fmt::Write as _;

        let site = agent.site;
        let mut text = format!(
            "site = \"{site}\"\ndata_dir = \"data\"\nworkers = 1\nglue = \"glue.toml\"\n\n\
             [peer]\nlisten = \"{}\"\nca = \"ca.pem\"\ncert = \"{site}.pem\"\nkey = \"{site}.key\"\n",
            agent.peer.addr
        );
        let services = [
            ("B", agent.b.addr, application.port.addr, ""),
            ("C", agent.c.addr, self.recorder.addr(), ""),
            (
                "vault",
                Port::reserve()?.addr,
                self.vault.addr(),
                if withholds { "peers = false\n" } else { "" },
            ),
        ];
        for (service, public, upstream, more) in services {
            let internal = Port::reserve()?.addr;
            let _ = write!(
                text,
                "\n[services.{service}]\npublic = \"{public}\"\ninternal = \"{internal}\"\n\
                 upstream = \"http://{upstream}\"\n{more}"
            );
        }
        for (other, address) in others.iter().filter(|(other, _)| *other != site) {
            let _ = write!(text, "\n[sites.{other}]\naddress = \"{address}\"\n");
        }
        Ok(text)
    }

    /// Waits until every agent answers and sees every other site that runs.
    pub(super) fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + SOON;
        let is_gone = |site: &Value| site["name"].as_str().is_some_and(|name| ALL_GONE.contains(&name));
        let is_fine = |site: &Value| site["up"] != is_gone(site);
        let count = HONEST.len() + 1 + ALL_GONE.len();
        let are_fine = |sites: &[Value]| sites.len() == count && sites.iter().all(is_fine);
        let mut agents = self.agents.iter_mut();
        agents.try_for_each(|agent| agent.process.wait_for_sites(until, are_fine))
    }
}

/// Makes a mesh with certificates for all sites, the hostile one included.
pub(super) fn certify(program: &Path, dir: &Path) -> Result<()> {
    let [one, two, three] = HONEST;
    processes::certify(program, dir, &[one, two, three, HOSTILE, UNLISTED])
}

impl Agent {
    pub(super) fn pid(&self) -> u32 {
        self.process.pid().unwrap_or(0)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.process.dir
    }

    pub(super) fn program(&self) -> &Path {
        &self.process.program
    }

    pub(super) fn admin(&self, path: &str) -> Result<Value> {
        http::admin(&self.process.admin_socket(), path)
    }

    pub(super) fn start(&mut self) -> Result<()> {
        self.process.start(|_| {})
    }

    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// An error, with what its log says last, when the agent is gone.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.process.pid().is_none() {
            bail!("the agent of {} does not run", self.site);
        }
        self.process.check()
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        Memory::of(self.pid())
    }

    /// From now on the peak of its memory is counted anew.
    pub(super) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid());
        fs::write(&path, "5").with_context(|| format!("{path} cannot be written"))
    }
}
