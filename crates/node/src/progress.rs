//! Creates that go on after they were answered: how far the replicas are, for a caller that wants to know.

use std::time::Duration;

use cheops_ports::Told;
use cheops_replica::MetaId;
use cheops_types::{Code, Outcome, Visit};
use tokio::time::{Instant, sleep_until};

use crate::{asks::Progress, core::Core};

/// Between two looks: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Waits until no replica is under way any more, and tells what became of each: one that is still under way is
/// pending, and one that has failed is refused.
pub(crate) async fn wait(core: &Core, mut told: Told, until: Instant) -> Told {
    let set = MetaId::new(&told.set);
    let mut pause = FIRST_PAUSE;
    loop {
        let mut is_over = true;
        for visit in &mut told.sites {
            look(core, &set, visit).await;
            is_over &= visit.outcome != Outcome::Pending;
        }
        let next = Instant::now() + pause;
        if is_over || next > until {
            return told;
        }
        sleep_until(next).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn look(core: &Core, set: &MetaId, visit: &mut Visit) {
    let is_told = visit.outcome == Outcome::Executed && visit.error.is_some();
    if is_told || !matches!(visit.outcome, Outcome::Executed | Outcome::Pending) {
        return;
    }
    let replica = if visit.site == core.site {
        core.asks.replica(set).await
    } else {
        core.asks.replica_at(&visit.site, set).await
    };
    let progress = replica.ok().and_then(|replica| replica.progress);
    (visit.outcome, visit.error) = match progress {
        Some(Progress::Done) => (Outcome::Executed, None),
        Some(Progress::UnderWay(word)) => (Outcome::Pending, Some(word)),
        Some(Progress::Failed(_)) => (Outcome::Executed, Some(Code::ReplicaRefused.as_str().to_owned())),
        // Nobody says that it is done.
        None => (Outcome::Pending, visit.error.take()),
    };
}
