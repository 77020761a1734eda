//! Three sites of real processes: an application each that nobody disturbs, an agent in front of it, links.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use cheops_relay::Relay;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    clock::{self, Clock},
    history::{SITES, Site, name},
    http,
    ports::Port,
};
use crate::command::succeed;

/// Limits that are shorter than their defaults, so that ten minutes hold many faults and 30 s are long. None of them
/// says what is right, only how soon it is tried again or noticed.
pub(super) const LIMITS: &[(&str, u64)] = &[
    ("heartbeat_interval_ms", 300),
    ("peer_connect_timeout_ms", 1_000),
    ("peer_timeout_ms", 3_000),
    ("doubt_settle_ms", 1_000),
    ("ship_retry_max_ms", 2_000),
    ("replay_retry_max_ms", 2_000),
    ("replay_blocked_ms", 2_000),
];
/// For what only the processes have to do.
const SOON: Duration = Duration::from_secs(20);
/// How far an agent's clock is set ahead to see that it can be.
const PROOF_S: i64 = 1_800;
const POLL: Duration = Duration::from_millis(20);

pub(super) struct Sites {
    // First, so that agents end before what they are connected to.
    agents: Vec<Agent>,
    applications: Vec<Application>,
    /// From one site to another; the way back is a link of its own.
    links: BTreeMap<(Site, Site), Relay>,
    /// Directions in which nothing passes, by how many faults close them.
    closed: BTreeMap<(Site, Site), usize>,
    peers: Vec<Port>,
}

struct Agent {
    program: PathBuf,
    dir: PathBuf,
    clock: Clock,
    public: Port,
    internal: Port,
    process: Option<Child>,
}

struct Application {
    port: Port,
    process: Child,
}

impl Sites {
    /// Starts everything below `dir` and waits until all agents see each other.
    pub(super) fn start(program: &Path, library: &Path, dir: &Path) -> Result<Self> {
        let peers = (0..SITES).map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
        let mut links = BTreeMap::new();
        for from in 0..SITES {
            for to in (0..SITES).filter(|to| *to != from) {
                let any = SocketAddr::from(([127, 0, 0, 1], 0));
                links.insert((from, to), Relay::bind(any, peers[to].addr)?);
            }
        }
        let ca = dir.join("ca");
        succeed(
            Command::new(program)
                .args(["ca", "init", "--dir"])
                .arg(&ca)
                .stdout(Stdio::null()),
        )?;
        let mut sites = Self {
            agents: Vec::new(),
            applications: Vec::new(),
            links,
            closed: BTreeMap::new(),
            peers,
        };
        for site in 0..SITES {
            let own = dir.join(name(site));
            let mut issue = Command::new(program);
            issue.args(["ca", "issue", &name(site), "--dir"]).arg(&ca);
            succeed(issue.arg("--out").arg(&own).stdout(Stdio::null()))?;
            sites.applications.push(Application::start(program, &own, site)?);
            let agent = Agent {
                program: program.to_owned(),
                clock: Clock::new(library, &own)?,
                dir: own,
                public: Port::reserve()?,
                internal: Port::reserve()?,
                process: None,
            };
            fs::write(agent.dir.join("cheops.toml"), sites.config(site, &agent))?;
            sites.agents.push(agent);
        }
        sites.agents.iter_mut().try_for_each(Agent::start)?;
        sites.ready()?;
        sites.agents.iter().try_for_each(Agent::prove_clock)?;
        Ok(sites)
    }

    fn config(&self, site: Site, agent: &Agent) -> String {
        use std::fmt::Write as _;

        let own = name(site);
        let mut text = format!(
            "site = \"{own}\"\ndata_dir = \"data\"\nworkers = 1\nglue = \"example\"\n\n\
             [peer]\nlisten = \"{peer}\"\nca = \"ca.pem\"\ncert = \"{own}.pem\"\nkey = \"{own}.key\"\n\n\
             [services.B]\npublic = \"{public}\"\ninternal = \"{internal}\"\nupstream = \"http://{upstream}\"\n\n[limits]\n",
            peer = self.peers[site].addr,
            public = agent.public.addr,
            internal = agent.internal.addr,
            upstream = self.applications[site].port.addr,
        );
        for (limit, value) in LIMITS {
            let _ = writeln!(text, "{limit} = {value}");
        }
        for ((_, to), link) in self.links.iter().filter(|((from, _), _)| *from == site) {
            let _ = writeln!(text, "\n[sites.{}]\naddress = \"{}\"", name(*to), link.addr());
        }
        text
    }

    /// Waits until every agent answers and sees every other.
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

    /// Where callers reach the agents.
    pub(super) fn public(&self) -> [SocketAddr; SITES] {
        std::array::from_fn(|site| self.agents[site].public.addr)
    }

    /// Where the application itself answers.
    pub(super) fn application(&self, site: Site) -> SocketAddr {
        self.applications[site].port.addr
    }

    pub(super) fn admin(&self, site: Site) -> PathBuf {
        self.agents[site].admin()
    }

    /// Closes these directions, or takes that back.
    pub(super) fn close(&mut self, ways: &[(Site, Site)], closed: bool) {
        for way in ways {
            let count = self.closed.entry(*way).or_default();
            *count = if closed {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        }
        self.links
            .iter()
            .for_each(|(ends, link)| follow(link, *ends, &self.closed));
    }

    /// Opens every direction, whoever closed it.
    pub(super) fn open_all(&mut self) {
        self.closed.clear();
        self.links.values().for_each(Relay::heal);
    }

    /// Lets an agent run that is paused or gone.
    pub(super) fn run_again(&mut self, site: Site) -> Result<()> {
        let agent = &mut self.agents[site];
        match agent.process {
            Some(_) => agent.signal(Signal::CONT),
            None => agent.start(),
        }
    }

    pub(super) fn kill(&mut self, site: Site) {
        self.agents[site].kill();
    }

    pub(super) fn start_again(&mut self, site: Site) -> Result<()> {
        self.agents[site].start()
    }

    pub(super) fn signal(&self, site: Site, signal: Signal) -> Result<()> {
        self.agents[site].signal(signal)
    }

    pub(super) fn set_clock(&self, site: Site, offset_s: i64) -> Result<()> {
        self.agents[site].clock.set(offset_s)
    }

    /// An error if a process that should run is gone: nothing in this suite ends one in good order.
    pub(super) fn check(&mut self) -> Result<()> {
        for application in &mut self.applications {
            if let Some(status) = application.process.try_wait()? {
                bail!("an application ended with {status}");
            }
        }
        self.agents.iter_mut().try_for_each(Agent::check)
    }
}

/// What a link does while these directions are closed. A link carries what one side dials: requests one way, answers
/// the other.
fn follow(link: &Relay, (from, to): (Site, Site), closed: &BTreeMap<(Site, Site), usize>) {
    let is_closed = |way| closed.get(&way).is_some_and(|count| *count > 0);
    match (is_closed((from, to)), is_closed((to, from))) {
        (false, false) => link.heal(),
        (true, true) => link.cut(),
        (true, false) => link.cut_to_target(),
        (false, true) => link.cut_from_target(),
    }
}

impl Agent {
    fn admin(&self) -> PathBuf {
        self.dir.join("data/admin.sock")
    }

    fn start(&mut self) -> Result<()> {
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
        self.clock.wear(&mut command);
        self.process = Some(command.spawn().context("the agent cannot be started")?);
        Ok(())
    }

    /// Fails unless the agent's wall clock can be set while it runs. A reload is logged with the time.
    fn prove_clock(&self) -> Result<()> {
        self.clock.set(PROOF_S)?;
        self.signal(Signal::HUP)?;
        let start = Instant::now();
        let passed_s = loop {
            let log = fs::read_to_string(self.dir.join("agent.log"))?;
            if let Some(passed_s) = clock::passed_s(&log, " ready ", " reloaded ") {
                break passed_s;
            }
            if start.elapsed() > SOON {
                bail!(
                    "the log in {} tells no time of a reload:\n{log}",
                    self.dir.display()
                );
            }
            thread::sleep(POLL);
        };
        self.clock.set(0)?;
        let expected = PROOF_S.cast_unsigned();
        if !(expected..expected + 2 * SOON.as_secs()).contains(&passed_s) {
            bail!(
                "the agent does not see its clock set {PROOF_S} s ahead, but {passed_s} s: libfaketime does not work with it"
            );
        }
        Ok(())
    }

    fn sees_all(&self) -> bool {
        let Ok(answer) = http::admin(&self.admin(), "/v1/sites") else {
            return false;
        };
        let up = |site: &serde_json::Value| site["up"] == true;
        answer["sites"]
            .as_array()
            .is_some_and(|sites| sites.len() == SITES && sites.iter().all(up))
    }

    fn check(&mut self) -> Result<()> {
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

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process.as_ref().context("the agent runs")?;
        let pid = Pid::from_raw(process.id().cast_signed()).context("a process has an id")?;
        Ok(kill_process(pid, signal)?)
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
            clock::forget(process.id());
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Application {
    fn start(program: &Path, dir: &Path, site: Site) -> Result<Self> {
        let port = Port::reserve()?;
        let process = Command::new(program)
            .args(["example-app", "B", "--exit-with-stdin", "--string", &name(site)])
            .args(["--listen", &port.addr.to_string()])
            .args(["--id-base", &(1 + 1_000_000 * (site + 1)).to_string()])
            .arg("--data-dir")
            .arg(dir.join("B"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("application.log"))?)
            .process_group(0)
            .spawn()?;
        Ok(Self { port, process })
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
