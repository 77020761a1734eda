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

use std::{collections::BTreeSet, rc::Rc, sync::Arc, time::Duration};

use cheops_types::SiteName;
use tokio::{task::JoinSet, time::Instant};

pub(crate) use ranges::{Listed, answer};

use cheops_ports::Peers;

use crate::{core::Core, hello};
use walk::Walk;

/// Between two looks at what is due.
const TICK: Duration = Duration::from_secs(1);
/// Until the first walk and the first exchange after a start: there is enough to do then.
const FIRST_AFTER: Duration = Duration::from_secs(30);

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
        let mut due = core.comparisons.take_returned();
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
            hellos.spawn(async move { hello::say_hello(&core, &site).await });
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
