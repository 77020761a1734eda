//! What is done for replica sets without anyone asking.
//!
//! The *walk* lets every set compare its replicas from time to time, some sets per second, begun by one of its
//! members. The *exchange* finds sets about whose operations two sites silently disagree: each tells the other
//! a hash per bucket of what it holds, only buckets that differ are listed, and only sets that differ are
//! spoken about again. Neither costs much where all is well, however many sets there are.

mod fold;
mod ranges;
#[cfg(test)]
mod tests;
mod walk;

use std::{
    collections::BTreeSet,
    fmt,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cheops_types::SiteName;
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

pub(crate) use fold::held_hash;
pub(crate) use ranges::{Listed, answer};

use crate::{core::Core, life, ports::Peers};
use walk::Walk;

/// Between two looks at what is due.
const TICK: Duration = Duration::from_secs(1);
/// Until the first walk and the first exchange after a start: there is enough to do then.
const FIRST_AFTER: Duration = Duration::from_secs(30);

/// What others tell the upkeep, and what it has done.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Sites that can be reached again.
    returned: Mutex<BTreeSet<SiteName>>,
    /// One scan of all sets at a time.
    scans: Semaphore,
    compared: AtomicU64,
    walks: AtomicU64,
    expired: AtomicU64,
    exchanges: AtomicU64,
    disagreed: AtomicU64,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            returned: Mutex::default(),
            scans: Semaphore::new(1),
            compared: AtomicU64::default(),
            walks: AtomicU64::default(),
            expired: AtomicU64::default(),
            exchanges: AtomicU64::default(),
            disagreed: AtomicU64::default(),
        }
    }
}

impl Upkeep {
    /// A site can be reached again: what the two hold is compared soon.
    pub(crate) fn peer_up(&self, site: &SiteName) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.insert(site.clone());
    }

    fn take_returned(&self) -> BTreeSet<SiteName> {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *returned)
    }
}

/// Counters in Prometheus' text form.
impl fmt::Display for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = [
            ("comparisons_begun_total", &self.compared),
            ("comparison_walks_total", &self.walks),
            ("tombstones_expired_total", &self.expired),
            ("range_exchanges_total", &self.exchanges),
            ("range_disagreements_total", &self.disagreed),
        ];
        for (name, counter) in counters {
            let value = counter.load(Ordering::Relaxed);
            writeln!(f, "# TYPE cheops_{name} counter\ncheops_{name} {value}")?;
        }
        Ok(())
    }
}

/// Runs until it is dropped. `is_busy` says whether the application has enough to do on behalf of replication.
pub(crate) async fn run(core: Arc<Core>, peers: Rc<dyn Peers>, is_busy: impl Fn() -> bool) {
    let start = Instant::now();
    let every = || Duration::from_secs(core.surroundings.limits().ranges_every_s.max(1));
    let mut walk = Walk::new(&core, start);
    let mut exchange_at = start + FIRST_AFTER.min(every());
    loop {
        tokio::time::sleep(TICK).await;
        // First of all: what this site numbers depends on it.
        say_hellos(&core, up_sites(&core, &*peers)).await;
        if core.engine.is_busy() || is_busy() {
            continue;
        }
        let up = up_sites(&core, &*peers);
        walk.go_on(&core, &up).await;
        let mut due = core.upkeep.take_returned();
        if exchange_at <= Instant::now() {
            exchange_at = Instant::now() + every();
            due.extend(up.iter().filter(|site| **site != core.site).cloned());
        }
        for site in due.intersection(&up) {
            ranges::exchange(&core, site).await;
        }
    }
}

/// Asks all sites at once that have not confirmed the store: one that takes its time holds up none of the others.
async fn say_hellos(core: &Arc<Core>, sites: BTreeSet<SiteName>) {
    let mut hellos = JoinSet::new();
    for site in sites {
        if site != core.site && !core.life.has_confirmed(&site) {
            let core = Arc::clone(core);
            hellos.spawn(async move { life::say_hello(&core, &site).await });
        }
    }
    hellos.join_all().await;
}

/// This site, and those that answer heartbeats.
fn up_sites(core: &Core, peers: &dyn Peers) -> BTreeSet<SiteName> {
    let sites = core.surroundings.sites().into_iter();
    sites
        .filter(|site| *site == core.site || peers.is_up(site))
        .collect()
}
