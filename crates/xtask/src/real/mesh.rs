//! Agents of several sites and the links between them.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use cheops_relay::Relay;
use serde_json::Value;

use super::{Agent, AgentConfig, Interrupt, Run, until};

/// Cuts are noticed soon, so that the suite is quick; still far above what two cores need to answer.
const LIMITS: &[(&str, u64)] = &[
    ("heartbeat_interval_ms", 300),
    ("peer_connect_timeout_ms", 1_000),
    ("peer_timeout_ms", 2_000),
    ("drain_timeout_ms", 2_000),
];
/// For anything that only the agents have to do.
const SOON: Duration = Duration::from_secs(20);

/// Running agents, numbered from 1 in the order of their configurations.
pub(crate) struct Mesh {
    // First, so that agents end before what they are connected to.
    sites: Vec<Site>,
    /// From one site to another; the way back is a link of its own.
    links: BTreeMap<(usize, usize), Relay>,
    interrupt: Interrupt,
}

/// One site's agent and its files.
pub(crate) struct Site {
    pub(crate) name: String,
    dir: PathBuf,
    program: PathBuf,
    agent: Option<Agent>,
    interrupt: Interrupt,
}

impl Mesh {
    /// Makes certificates and configurations in a directory per site below `dir` and starts the agents, without
    /// waiting for them: see [`Mesh::ready`].
    pub(crate) fn start(
        interrupt: &Interrupt,
        program: &Path,
        dir: &Path,
        configs: &[AgentConfig],
    ) -> Result<Self> {
        let mut links = BTreeMap::new();
        for from in 1..=configs.len() {
            for (to, config) in (1..).zip(configs).filter(|(to, _)| *to != from) {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                links.insert((from, to), Relay::bind(any, config.peer)?);
            }
        }
        let ca = dir.join("ca");
        cheops(interrupt, program)
            .args(["ca", "init", "--dir"])
            .args([&ca])
            .ok()?;
        let mut sites = Vec::new();
        for (number, config) in (1..).zip(configs) {
            let site = Site {
                name: config.name.clone(),
                dir: dir.join(&config.name),
                program: program.to_owned(),
                agent: None,
                interrupt: interrupt.clone(),
            };
            cheops(interrupt, program)
                .args(["ca", "issue", &site.name])
                .args([
                    "--dir".as_ref(),
                    ca.as_os_str(),
                    "--out".as_ref(),
                    site.dir.as_os_str(),
                ])
                .ok()?;
            if !config.listener.is_empty() {
                cheops(interrupt, program)
                    .args(["ca", "listener", &site.name])
                    .args(config.listener)
                    .args([
                        "--dir".as_ref(),
                        ca.as_os_str(),
                        "--out".as_ref(),
                        site.dir.as_os_str(),
                    ])
                    .ok()?;
            }
            fs::write(site.config(), text(number, configs, &links)?)?;
            sites.push(site);
        }
        let mut mesh = Self {
            sites,
            links,
            interrupt: interrupt.clone(),
        };
        mesh.sites.iter_mut().try_for_each(Site::start)?;
        Ok(mesh)
    }

    /// Waits until every agent sees every other.
    pub(crate) fn ready(&mut self) -> Result<()> {
        let names: Vec<_> = self.sites.iter().map(|site| site.name.clone()).collect();
        let interrupt = self.interrupt.clone();
        for site in &mut self.sites {
            let what = format!("{} sees the other sites", site.name);
            until(&interrupt, &what, SOON, || {
                // An agent that is gone will not come back: no reason to wait.
                if let Err(gone) = site.check() {
                    return Ok(Some(Err(gone)));
                }
                let up = site.up()?;
                Ok(names.iter().all(|name| up.contains(name)).then_some(Ok(())))
            })??;
        }
        Ok(())
    }

    pub(crate) fn site(&self, number: usize) -> &Site {
        &self.sites[number - 1]
    }

    /// Cuts all links from and to a site, and waits until every agent has noticed.
    pub(crate) fn isolate(&self, number: usize) -> Result<()> {
        self.links_of(number).for_each(Relay::cut);
        self.notice(number, false)
    }

    /// Ends what [`Mesh::isolate`] did, and waits until every agent has noticed.
    pub(crate) fn rejoin(&self, number: usize) -> Result<()> {
        self.links_of(number).for_each(Relay::heal);
        self.notice(number, true)
    }

    /// Cuts every link.
    pub(crate) fn cut(&self) -> Result<()> {
        self.links.values().for_each(Relay::cut);
        (1..=self.sites.len()).try_for_each(|number| self.notice(number, false))
    }

    /// Heals every link, whoever cut it.
    pub(crate) fn heal(&self) -> Result<()> {
        self.links.values().for_each(Relay::heal);
        (1..=self.sites.len()).try_for_each(|number| self.notice(number, true))
    }

    fn links_of(&self, number: usize) -> impl Iterator<Item = &Relay> {
        let ends_there = move |(from, to): &(usize, usize)| *from == number || *to == number;
        self.links
            .iter()
            .filter(move |(ends, _)| ends_there(ends))
            .map(|(_, link)| link)
    }

    /// Waits until a site and all others see each other, or do not.
    fn notice(&self, number: usize, up: bool) -> Result<()> {
        let name = &self.site(number).name;
        for other in self.sites.iter().filter(|site| site.name != *name) {
            for (at, seen) in [(self.site(number), &other.name), (other, name)] {
                at.until_sees(seen, up)?;
            }
        }
        Ok(())
    }
}

impl Site {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("cheops.toml")
    }

    pub(crate) fn admin(&self) -> PathBuf {
        self.dir.join("data/admin.sock")
    }

    /// A command of the agent's program that asks this agent, where it asks one.
    pub(crate) fn cheops<I>(&self, args: I) -> Run
    where
        I: IntoIterator,
        I::Item: AsRef<std::ffi::OsStr>,
    {
        cheops(&self.interrupt, &self.program)
            .env("CHEOPS_ADMIN", self.admin())
            .args(args)
    }

    pub(crate) fn start(&mut self) -> Result<()> {
        let log = self.dir.join("agent.log");
        self.agent = Some(Agent::spawn(&self.program, &self.name, &self.config(), &log)?);
        Ok(())
    }

    /// An error if the agent is gone.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.agent.as_mut().context("the agent was started")?.check()
    }

    /// The sites that the agent sees as up, its own included.
    pub(crate) fn up(&self) -> Result<Vec<String>> {
        let answer = self.cheops(["sites", "--json"]).json()?;
        let sites = answer["sites"].as_array().context("no sites")?;
        let up = sites.iter().filter(|site| site["up"] == Value::Bool(true));
        Ok(up
            .filter_map(|site| site["name"].as_str().map(str::to_owned))
            .collect())
    }

    pub(crate) fn until_sees(&self, other: &str, up: bool) -> Result<()> {
        let what = format!("{} sees {other} as up: {up}", self.name);
        until(&self.interrupt, &what, SOON, || {
            let seen = self.up()?.iter().any(|name| name == other);
            Ok((seen == up).then_some(()))
        })
    }
}

fn cheops(interrupt: &Interrupt, program: &Path) -> Run {
    Run::new(interrupt, program)
}

/// The configuration of one site.
fn text(number: usize, configs: &[AgentConfig], links: &BTreeMap<(usize, usize), Relay>) -> Result<String> {
    use std::fmt::Write as _;

    let AgentConfig {
        name,
        peer,
        root,
        limits,
        tables,
        ..
    } = &configs[number - 1];
    let mut text = format!(
        "site = \"{name}\"\ndata_dir = \"data\"\nworkers = 1\n{root}\n\
         [peer]\nlisten = \"{peer}\"\nca = \"ca.pem\"\ncert = \"{name}.pem\"\nkey = \"{name}.key\"\n\n[limits]\n"
    );
    let limits: BTreeMap<_, _> = LIMITS.iter().chain(*limits).copied().collect();
    for (limit, value) in limits {
        writeln!(text, "{limit} = {value}")?;
    }
    writeln!(text, "\n{tables}")?;
    for ((_, to), link) in links.iter().filter(|((from, _), _)| *from == number) {
        let (other, address) = (&configs[to - 1].name, link.addr());
        writeln!(text, "[sites.{other}]\naddress = \"{address}\"\n")?;
    }
    Ok(text)
}
