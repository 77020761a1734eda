//! Starting and stopping the sites of a demo.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use cheops_relay::Relay;
use cheops_types::SiteName;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{self, Instant},
};

use crate::{
    admin::{SiteStatus, SitesAnswer, client::Client},
    ca,
    demo::{
        Stop,
        child::{self, Children},
        config_file,
        layout::{Layout, ServiceAddresses, SiteAddresses},
    },
};

/// How long everything may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long agents may take to notice that a site went or came.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One site: what runs there and where.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Site {
    pub(super) name: SiteName,
    pub(super) services: BTreeMap<&'static str, ServiceAddresses>,
    pub(super) peer: SocketAddr,
    pub(super) admin: PathBuf,
    pub(super) config: PathBuf,
    #[serde(rename = "log")]
    agent_log: PathBuf,
}

/// A link from one site to another, both ways as slow.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) from: SiteName,
    pub(super) to: SiteName,
    pub(super) round_trip: Duration,
    relay: Relay,
}

/// The sites and the links between them.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) sites: Vec<Site>,
    pub(super) links: Vec<Link>,
}

/// Everything that a demo runs.
#[derive(Debug)]
pub(super) struct Sites {
    pub(super) map: Map,
    pub(super) children: Children,
    dir: TempDir,
}

impl Sites {
    /// Starts `count` sites in a line, neighbours `rtt_ms` apart, and waits until every agent
    /// sees every other.
    pub(super) async fn start(count: u8, rtt_ms: u16) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("cheops-demo-")
            .tempdir()
            .context("a temporary directory cannot be made")?;
        let mut layout = Layout::choose(count).context("no free ports on 127.0.0.1")?;
        let map = Map::draw(&mut layout, dir.path(), Duration::from_millis(rtt_ms.into()))?;
        map.write_files(dir.path(), &layout.sites)?;
        layout.release();
        let mut children = Children::default();
        for (index, site) in map.sites.iter().enumerate() {
            site.spawn(index, &mut children)?;
        }
        let mut sites = Self { map, children, dir };
        sites.wait_ready().await?;
        Ok(sites)
    }

    /// Stops everything. The directory is removed, or kept and returned.
    pub(super) async fn stop(mut self, keep: bool, stop: &mut Stop) -> Option<PathBuf> {
        self.children.stop(stop).await;
        keep.then(|| self.dir.keep())
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        for site in &self.map.sites {
            loop {
                self.children.check()?;
                let Err(missing) = site.ready(self.map.sites.len()).await else {
                    break;
                };
                if Instant::now() > deadline {
                    let tail = child::tail(&site.agent_log);
                    return Err(anyhow!(
                        "{} was not ready in {} s: {missing:#}{tail}",
                        site.name,
                        READY_TIMEOUT.as_secs()
                    ));
                }
                time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }
}

impl Site {
    pub(super) fn a(&self) -> SocketAddr {
        self.services["A"].public
    }

    pub(super) fn b(&self) -> SocketAddr {
        self.services["B"].public
    }

    /// The sites as this one's agent sees them.
    async fn sees(&self) -> anyhow::Result<Vec<SiteStatus>> {
        let answer: SitesAnswer = Client::new(&self.admin).get("/v1/sites").await?;
        Ok(answer.sites)
    }

    fn dir(&self) -> &Path {
        self.config.parent().unwrap_or(Path::new("."))
    }

    /// Starts the application's services and the agent. `index` counts from 0.
    fn spawn(&self, index: usize, children: &mut Children) -> anyhow::Result<()> {
        let number = index + 1;
        let id_base = (1000 * number + 1).to_string();
        let string = format!("from site {number}");
        let b_internal = self.services["B"].internal.to_string();
        for (service, option, value) in [("A", "--b", &b_internal), ("B", "--string", &string)] {
            let data_dir = self.dir().join(service);
            let listen = self.services[service].upstream.to_string();
            let args = [
                "example-app".as_ref(),
                service.as_ref(),
                option.as_ref(),
                value.as_ref(),
                "--listen".as_ref(),
                listen.as_ref(),
                "--id-base".as_ref(),
                id_base.as_ref(),
                "--data-dir".as_ref(),
                data_dir.as_os_str(),
                "--exit-with-stdin".as_ref(),
            ];
            let log = self.dir().join(format!("{service}.log"));
            children.spawn(format!("service {service} of {}", self.name), args, &log)?;
        }
        let args = [
            "run".as_ref(),
            "-c".as_ref(),
            self.config.as_os_str(),
            "--exit-with-stdin".as_ref(),
        ];
        children.spawn(format!("the agent of {}", self.name), args, &self.agent_log)
    }

    /// An error that says what is missing until all addresses answer and `count` sites are up.
    async fn ready(&self, count: usize) -> anyhow::Result<()> {
        for (name, service) in &self.services {
            for addr in [service.upstream, service.public, service.internal] {
                TcpStream::connect(addr)
                    .await
                    .with_context(|| format!("service {name} at {addr}"))?;
            }
        }
        let seen = self.sees().await?;
        if let Some(down) = seen.iter().find(|site| !site.up) {
            return Err(anyhow!("its agent does not reach {}", down.name));
        }
        if seen.len() < count {
            return Err(anyhow!("its agent knows {} of {count} sites", seen.len()));
        }
        Ok(())
    }
}

impl Map {
    fn draw(layout: &mut Layout, dir: &Path, hop: Duration) -> anyhow::Result<Self> {
        let names = (1..=layout.sites.len())
            .map(|number| SiteName::new(&format!("site{number}")))
            .collect::<Result<Vec<_>, _>>()?;
        let mut links = Vec::new();
        for start in layout.links.drain(..) {
            let round_trip = hop * start.from.abs_diff(start.to) as u32;
            let relay = Relay::on(start.listener, layout.sites[start.to].peer)?;
            relay.set_delay(round_trip / 2);
            links.push(Link {
                from: names[start.from].clone(),
                to: names[start.to].clone(),
                round_trip,
                relay,
            });
        }
        let sites = names
            .into_iter()
            .zip(&layout.sites)
            .map(|(name, addresses)| {
                let dir = dir.join(name.as_str());
                Site {
                    name,
                    services: [("A", addresses.a), ("B", addresses.b)].into(),
                    peer: addresses.peer,
                    admin: dir.join("data/admin.sock"),
                    config: dir.join("cheops.toml"),
                    agent_log: dir.join("agent.log"),
                }
            })
            .collect();
        Ok(Self { sites, links })
    }

    fn write_files(&self, dir: &Path, addresses: &[SiteAddresses]) -> anyhow::Result<()> {
        let ca_dir = dir.join("ca");
        ca::init(&ca_dir)?;
        let round_trip_max = self.links.iter().map(|link| link.round_trip).max();
        for (site, addresses) in self.sites.iter().zip(addresses) {
            let data_dir = site.dir().join("data");
            fs::create_dir_all(&data_dir)?;
            ca::issue(&ca_dir, &site.name, site.dir())?;
            let links = self
                .links
                .iter()
                .filter(|link| link.from == site.name)
                .map(|link| (&link.to, link.relay.addr()))
                .collect();
            let text = config_file::render(
                &site.name,
                &data_dir,
                addresses,
                &links,
                round_trip_max.unwrap_or_default(),
            )?;
            fs::write(&site.config, text)?;
        }
        Ok(())
    }

    /// Cuts every link from and to a site.
    pub(super) fn cut(&self, site: &str) {
        self.links_of(site).for_each(|link| link.relay.cut());
    }

    pub(super) fn heal(&self, site: &str) {
        self.links_of(site).for_each(|link| link.relay.heal());
    }

    /// Waits until every other agent sees `site` as up, or as down.
    pub(super) async fn noticed(&self, site: &str, up: bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + NOTICE_TIMEOUT;
        for other in self.sites.iter().filter(|other| other.name.as_str() != site) {
            loop {
                let seen = other.sees().await?;
                if seen
                    .iter()
                    .any(|seen| seen.name.as_str() == site && seen.up == up)
                {
                    break;
                }
                if Instant::now() > deadline {
                    let state = if up { "up" } else { "down" };
                    return Err(anyhow!("{} does not notice that {site} is {state}", other.name));
                }
                time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Waits until the agent of the first site measured the others to be as far, by order, as
    /// their links are. One late heartbeat at the start is enough to mislead it for a while.
    /// Returns what it measured, nearest first.
    pub(super) async fn measured(&self) -> anyhow::Result<Vec<(SiteName, Duration)>> {
        let first = &self.sites[0];
        let deadline = Instant::now() + NOTICE_TIMEOUT;
        loop {
            let mut seen = Vec::new();
            for site in first.sees().await? {
                if let (false, Some(round_trip_us)) = (site.here, site.round_trip_us) {
                    seen.push((site.name, Duration::from_micros(round_trip_us)));
                }
            }
            seen.sort_by_key(|(_, round_trip)| *round_trip);
            let links = self.links.iter().filter(|link| link.from == first.name);
            // Sites are in a line: the links of the first are drawn nearest first.
            if links.map(|link| &link.to).eq(seen.iter().map(|(name, _)| name)) {
                return Ok(seen);
            }
            if Instant::now() > deadline {
                return Err(anyhow!("{} measures its distances wrong: {seen:?}", first.name));
            }
            time::sleep(POLL_INTERVAL).await;
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let links = self.links.iter().map(|link| {
            json!({
                "from": link.from,
                "to": link.to,
                "listen": link.relay.addr(),
                "target": link.relay.target(),
                "round_trip_ms": link.round_trip.as_millis() as u64,
            })
        });
        json!({ "sites": self.sites, "relays": links.collect::<Vec<_>>() })
    }

    fn links_of<'a>(&'a self, site: &'a str) -> impl Iterator<Item = &'a Link> {
        self.links
            .iter()
            .filter(move |link| link.from.as_str() == site || link.to.as_str() == site)
    }
}
