//! Sites of real processes: an application each that nobody disturbs, an agent in front of it, links.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use cheops_relay::Relay;
use rustix::process::{Pid, Signal, kill_process};

use super::{
    clock::{self, Clock},
    names::{Site, name},
};
use crate::processes::{self, Application, Port, certify};

/// For what only the processes have to do.
const SOON: Duration = Duration::from_secs(20);
/// How far an agent's clock is set ahead to see that it can be.
const PROOF_S: i64 = 1_800;
const POLL: Duration = Duration::from_millis(20);

/// What sites are to be started.
pub(crate) struct Mesh<'a> {
    pub(crate) program: &'a Path,
    /// Of clocks that can be set, where that is wanted.
    pub(crate) library: Option<&'a Path>,
    pub(crate) dir: &'a Path,
    pub(crate) sites: usize,
    /// Limits of the agents that are not their defaults.
    pub(crate) limits: &'a [(&'a str, u64)],
    /// From one end to the other of the link between two sites.
    pub(crate) delay: &'a dyn Fn(Site, Site) -> Duration,
}

pub(crate) struct Sites {
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
    process: processes::Agent,
    clock: Option<Clock>,
    public: Port,
    internal: Port,
}

impl Sites {
    /// Starts everything below the directory and waits until all agents see each other.
    pub(crate) fn start(mesh: &Mesh<'_>) -> Result<Self> {
        let Mesh {
            program,
            library,
            dir,
            sites: count,
            ..
        } = *mesh;
        let peers = (0..count).map(|_| Port::reserve()).collect::<Result<Vec<_>>>()?;
        let mut links = BTreeMap::new();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                let any = SocketAddr::from(([127, 0, 0, 1], 0));
                let link = Relay::bind(any, peers[to].addr)?;
                link.set_delay((mesh.delay)(from, to));
                links.insert((from, to), link);
            }
        }
        let names: Vec<String> = (0..count).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        certify(program, dir, &names)?;
        let mut sites = Self {
            agents: Vec::new(),
            applications: Vec::new(),
            links,
            closed: BTreeMap::new(),
            peers,
        };
        for (site, name) in names.into_iter().enumerate() {
            let own = dir.join(name);
            let application = Application::start(program, &own, name, site)?;
            sites.applications.push(application);
            let agent = Agent {
                clock: library.map(|library| Clock::new(library, &own)).transpose()?,
                process: processes::Agent::new(program, own),
                public: Port::reserve()?,
                internal: Port::reserve()?,
            };
            fs::write(
                agent.process.dir.join("cheops.toml"),
                sites.config(site, &agent, mesh.limits),
            )?;
            sites.agents.push(agent);
        }
        sites.agents.iter_mut().try_for_each(Agent::start)?;
        sites.ready()?;
        sites.agents.iter().try_for_each(Agent::prove_clock)?;
        Ok(sites)
    }

    fn config(&self, site: Site, agent: &Agent, limits: &[(&str, u64)]) -> String {
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
        for (limit, value) in limits {
            let _ = writeln!(text, "{limit} = {value}");
        }
        for ((_, to), link) in self.links.iter().filter(|((from, _), _)| *from == site) {
            let _ = writeln!(text, "\n[sites.{}]\naddress = \"{}\"", name(*to), link.addr());
        }
        text
    }

    /// Waits until every agent answers and sees every other.
    fn ready(&mut self) -> Result<()> {
        let until = Instant::now() + SOON;
        let is_up = |site: &serde_json::Value| site["up"] == true;
        let count = self.count();
        let are_all = |sites: &[serde_json::Value]| sites.len() == count && sites.iter().all(is_up);
        let mut agents = self.agents.iter_mut();
        agents.try_for_each(|agent| agent.process.wait_for_sites(until, are_all))
    }

    /// Where callers reach the agents.
    pub(crate) fn public(&self) -> Vec<SocketAddr> {
        self.agents.iter().map(|agent| agent.public.addr).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Where the application itself answers.
    pub(crate) fn application(&self, site: Site) -> SocketAddr {
        self.applications[site].port.addr
    }

    /// None while the agent does not run.
    pub(crate) fn pid(&self, site: Site) -> Option<u32> {
        self.agents[site].process.pid()
    }

    pub(crate) fn admin(&self, site: Site) -> PathBuf {
        self.agents[site].process.admin_socket()
    }

    /// Closes these directions, or takes that back.
    pub(crate) fn close(&mut self, ways: &[(Site, Site)], closed: bool) {
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
    fn open_all(&mut self) {
        self.closed.clear();
        self.links.values().for_each(Relay::heal);
    }

    /// Ends every fault, whatever is under way, and waits until all agents see each other.
    pub(crate) fn heal(&mut self) -> Result<()> {
        self.open_all();
        for site in 0..self.count() {
            self.set_clock(site, 0)?;
            self.run_again(site)?;
        }
        self.ready()
    }

    /// Lets an agent run that is paused or gone.
    fn run_again(&mut self, site: Site) -> Result<()> {
        let agent = &mut self.agents[site];
        match agent.process.pid() {
            Some(_) => agent.signal(Signal::CONT),
            None => agent.start(),
        }
    }

    pub(crate) fn kill(&mut self, site: Site) {
        self.agents[site].kill();
    }

    pub(crate) fn start_again(&mut self, site: Site) -> Result<()> {
        self.agents[site].start()
    }

    pub(crate) fn signal(&self, site: Site, signal: Signal) -> Result<()> {
        self.agents[site].signal(signal)
    }

    pub(crate) fn set_clock(&self, site: Site, offset_s: i64) -> Result<()> {
        let clock = self.agents[site].clock.as_ref();
        clock.map_or(Ok(()), |clock| clock.set(offset_s))
    }

    /// An error if a process that should run is gone: nothing in this suite ends one in good order.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.applications.iter_mut().try_for_each(Application::check)?;
        let mut agents = self.agents.iter_mut();
        agents.try_for_each(|agent| agent.process.check())
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
    fn start(&mut self) -> Result<()> {
        self.process.start(|command| {
            if let Some(clock) = &self.clock {
                clock.wear(command);
            }
        })
    }

    /// Fails unless the agent's wall clock, if it is to be one that can be set, is set while it runs. A reload is
    /// logged with the time.
    fn prove_clock(&self) -> Result<()> {
        let Some(own) = &self.clock else {
            return Ok(());
        };
        own.set(PROOF_S)?;
        self.signal(Signal::HUP)?;
        let start = Instant::now();
        let passed_s = loop {
            let log = fs::read_to_string(self.process.dir.join("agent.log"))?;
            if let Some(passed_s) = clock::passed_s(&log, " ready ", " reloaded ") {
                break passed_s;
            }
            if start.elapsed() > SOON {
                bail!(
                    "the log in {} tells no time of a reload:\n{log}",
                    self.process.dir.display()
                );
            }
            thread::sleep(POLL);
        };
        own.set(0)?;
        let expected = PROOF_S.cast_unsigned();
        if !(expected..expected + 2 * SOON.as_secs()).contains(&passed_s) {
            bail!(
                "the agent does not see its clock set {PROOF_S} s ahead, but {passed_s} s: libfaketime does not work with it"
            );
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.process.pid().context("the agent runs")?;
        let pid = Pid::from_raw(id.cast_signed()).context("a process has an id")?;
        Ok(kill_process(pid, signal)?)
    }

    fn kill(&mut self) {
        if let Some(id) = self.process.kill() {
            clock::forget(id);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}
