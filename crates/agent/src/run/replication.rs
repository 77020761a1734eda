//! Replication on the control runtime: its start, and what it is told of the agent.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use arc_swap::{ArcSwap, ArcSwapOption};
use cheops_glue::Profile;
use cheops_mesh::{Identity, Pulses};
use cheops_net::Clock;
use cheops_node::{Access, Node, Options, Runner, Surroundings};
use cheops_proxy::{OwnRequests, Shared};
use cheops_store::SiteKey;
use cheops_types::{Limits, ServiceName, SiteName, Slot};

use super::{configured::Configured, world::read};
use crate::config::Config;

/// The key that credentials at rest are sealed with, in the data directory.
const KEY_FILE: &str = "site.key";
/// How soon sets hear that a site can be reached again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How soon a new credential counts.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);

/// This site's part in replication.
pub(super) struct Replication {
    pub(super) node: Node,
    around: Arc<Around>,
}

impl Replication {
    /// Opens the store and goes on with what was under way. Must run on the control runtime.
    pub(super) fn start(
        config: &Config,
        restored: bool,
        shared: &Arc<Shared>,
        pulses: Pulses,
        clock: Rc<Clock>,
    ) -> anyhow::Result<Self> {
        let around = Arc::new(Around {
            shared: shared.clone(),
            identity: ArcSwapOption::new(identity(config)?.map(Arc::new)),
            configured: ArcSwap::from_pointee(Configured::of(config)?),
        });
        let key = SiteKey::open(&config.data_dir.join(KEY_FILE), &fill)?;
        let (node, work) = Node::start(Options {
            site: config.site.clone(),
            data: config.data_dir.clone(),
            restored,
            key,
            surroundings: around.clone(),
            presence: shared.presence.clone(),
        })?;
        shared.attach(Arc::new(node.clone()));
        let requests = OwnRequests::new(shared.clone(), clock);
        tokio::task::spawn_local(Runner::new(work, requests.clone(), requests).run());
        tokio::task::spawn_local(watch(node.clone(), pulses));
        tokio::task::spawn_local(follow(around.clone()));
        Ok(Self { node, around })
    }

    /// The identity of a new configuration counts from now on, and the credentials that it names.
    pub(super) fn reload(&self, config: &Config) -> anyhow::Result<()> {
        let configured = Configured::of(config)?;
        self.around.identity.store(identity(config)?.map(Arc::new));
        self.around.configured.store(Arc::new(configured));
        Ok(())
    }
}

/// Who this site is in the mesh, where it has peers.
fn identity(config: &Config) -> anyhow::Result<Option<Identity>> {
    let Some(peer) = &config.peer else { return Ok(None) };
    let text = |path| -> anyhow::Result<String> {
        String::from_utf8(read(path)?).with_context(|| format!("{} is no text", path.display()))
    };
    let identity = Identity::new(&text(&peer.ca)?, &text(&peer.cert)?, &text(&peer.key)?)
        .with_context(|| peer.cert.display().to_string())?;
    Ok(Some(identity.revoking(peer.revoked.clone())))
}

fn fill(buffer: &mut [u8]) -> std::io::Result<()> {
    getrandom::fill(buffer).map_err(|error| std::io::Error::other(error.to_string()))
}

/// Tells sets when a site answers again, also after a cut that was too short to be called one, and when it has
/// lost its store.
async fn watch(node: Node, pulses: Pulses) {
    let mut seen = HashMap::new();
    let mut lives = HashMap::new();
    loop {
        // One that is taken out of the configuration and listed again begins anew.
        let listed: HashSet<_> = pulses.recoveries().into_iter().map(|(site, _)| site).collect();
        seen.retain(|site, _| listed.contains(site));
        lives.retain(|site, _| listed.contains(site));
        for (site, incarnation) in pulses.incarnations() {
            if lives.insert(site.clone(), incarnation) != Some(incarnation) {
                node.peer_life(&site, incarnation);
            }
        }
        for (site, count) in pulses.recoveries() {
            if seen.insert(site.clone(), count) != Some(count) {
                node.peer_up(&site);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Credentials are replaced while the agent runs: their files are looked at now and then.
async fn follow(around: Arc<Around>) {
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        let configured = around.configured.load_full();
        let Ok(Some(fresh)) =
            tokio::task::spawn_blocking(move || configured.refreshed().map(|fresh| (configured, fresh)))
                .await
        else {
            continue;
        };
        let (old, fresh) = fresh;
        // A reload that came in between knows better.
        around.configured.compare_and_swap(&old, Arc::new(fresh));
    }
}

/// What is configured, the clock and randomness.
struct Around {
    shared: Arc<Shared>,
    identity: ArcSwapOption<Identity>,
    configured: ArcSwap<Configured>,
}

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn fill(&self, buffer: &mut [u8]) {
        fill(buffer).expect("the system gave randomness when the agent started");
    }

    fn profile(&self) -> Arc<Profile> {
        self.shared.world().profile.clone()
    }

    fn limits(&self) -> Limits {
        self.shared.world().limits.clone()
    }

    fn sites(&self) -> Vec<SiteName> {
        self.shared.world().sites.clone()
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        self.identity.load_full()
    }

    fn slot(&self, _here: &SiteName) -> Slot {
        self.configured.load().slot
    }

    fn access(&self, service: &ServiceName) -> Access {
        self.configured.load().access(service)
    }

    fn withheld(&self, site: &SiteName) -> Arc<[String]> {
        self.configured.load().withheld(site)
    }

    fn believes(&self, site: &SiteName) -> bool {
        self.configured.load().believes(site)
    }
}
