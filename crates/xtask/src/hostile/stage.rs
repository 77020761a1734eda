//! Three honest sites of real processes, an application each, and a hostile one that all of them list.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::recorder::Recorder;
use crate::{
    command::succeed,
    converge::{http, ports::Port},
    e2e::Memory,
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
const POLL: Duration = Duration::from_millis(20);
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
    pub(super) dir: PathBuf,
    pub(super) peer: Port,
    /// The client ports of the services.
    pub(super) b: Port,
    pub(super) c: Port,
    program: PathBuf,
    process: Option<Child>,
}

pub(super) struct Application {
    pub(super) port: Port,
    process: Child,
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
        for site in HONEST {
            let own = dir.join(site);
            fs::create_dir_all(&own)?;
            fs::write(own.join("glue.toml"), format!("{glue}{NOTES}"))?;
            stage.applications.push(Application::start(program, &own, site)?);
            stage.agents.push(Agent {
                site,
                dir: own,
                peer: Port::reserve()?,
                b: Port::reserve()?,
                c: Port::reserve()?,
                program: program.to_owned(),
                process: None,
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
            fs::write(agent.dir.join("cheops.toml"), text)?;
        }
        let mut check = Command::new(&self.agents[0].program);
        check
            .args(["config", "check", "-c"])
            .arg(self.agents[0].dir.join("cheops.toml"));
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
        let start = Instant::now();
        for agent in &mut self.agents {
            while !agent.sees_all() {
                agent.check()?;
                if start.elapsed() > SOON {
                    bail!(
                        "{} does not see the other sites: see agent.log there",
                        agent.dir.display()
                    );
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }
}

/// Makes a mesh with certificates for all sites, the hostile one included.
pub(super) fn certify(program: &Path, dir: &Path) -> Result<()> {
    let ca = dir.join("ca");
    let mut init = Command::new(program);
    succeed(init.args(["ca", "init", "--dir"]).arg(&ca).stdout(Stdio::null()))?;
    for site in HONEST.into_iter().chain([HOSTILE, UNLISTED]) {
        let mut issue = Command::new(program);
        issue.args(["ca", "issue", site, "--dir"]).arg(&ca);
        succeed(issue.arg("--out").arg(dir.join(site)).stdout(Stdio::null()))?;
    }
    Ok(())
}

impl Agent {
    pub(super) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn admin(&self, path: &str) -> Result<Value> {
        http::admin(&self.dir.join("data/admin.sock"), path)
    }

    pub(super) fn start(&mut self) -> Result<()> {
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
        self.process = Some(command.spawn().context("the agent cannot be started")?);
        Ok(())
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// An error, with what its log says last, when the agent is gone.
    pub(super) fn check(&mut self) -> Result<()> {
        let Some(process) = &mut self.process else {
            bail!("the agent of {} does not run", self.site);
        };
        if let Some(status) = process.try_wait()? {
            let log = fs::read_to_string(self.dir.join("agent.log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(3)..].join(" / ");
            bail!("the agent of {} ended with {status}: {tail}", self.site);
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        Memory::of(self.pid())
    }

    /// From now on the peak of its memory is counted anew.
    pub(super) fn forget_peak(&self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.pid());
        fs::write(&path, "5").with_context(|| format!("{path} cannot be written"))
    }

    fn sees_all(&self) -> bool {
        let Ok(answer) = self.admin("/v1/sites") else {
            return false;
        };
        let is_gone = |site: &Value| site["name"].as_str().is_some_and(|name| ALL_GONE.contains(&name));
        let is_fine = |site: &Value| site["up"] != is_gone(site);
        answer["sites"].as_array().is_some_and(|sites| {
            sites.len() == HONEST.len() + 1 + ALL_GONE.len() && sites.iter().all(is_fine)
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Application {
    fn start(program: &Path, dir: &Path, site: &str) -> Result<Self> {
        let port = Port::reserve()?;
        let number = HONEST.iter().position(|own| *own == site).unwrap_or(0);
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

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
