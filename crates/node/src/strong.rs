//! Strong sets at one site: their sites decide together, by the log of a group, what is written to them.
//!
//! ```text
//! caller ─▶ write      the leader's site proposes the draft as an *intent*; elsewhere it is handed over to that site
//!           Sets       a majority holds it: the engine executes it here, and says what came of it, as the *outcome*
//!           Sets       the outcome is committed: every member's engine takes the operation from the log
//!           write      the caller is answered
//! ```
//!
//! The engine executes, ships, compares and repairs as for any other set. What is added is that nothing becomes an operation
//! before the group has decided it. The groups live on the control runtime; the data plane asks them through [`GroupAsks`].

mod behind;
mod content;
mod disk;
mod keep;
mod read;
mod sets;
mod wire;
mod write;

use std::{rc::Rc, sync::Arc, time::Duration};

use cheops_ports::Peers;
use cheops_strong::{Founding, Groups, Member, Parts, Tuning};
use tokio::time::sleep;

use crate::core::Core;
pub(crate) use keep::keep;
pub(crate) use read::latest;
pub(crate) use write::{is_strong, write};

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits until a majority of each group has confirmed that this site's store is not of the past. A store that was set back has
/// forgotten whom it voted for and what it holds: what it said now would count as the word of one that remembers.
pub(crate) async fn confirmed(core: &Core) {
    loop {
        let foundings = disk::foundings(core).unwrap_or_default();
        let is_confirmed = |founding: &Founding| {
            let known = founding.founders.iter();
            let known = known.filter(|site| **site == core.site || core.life.has_confirmed(site));
            known.count() >= founding.majority()
        };
        if foundings.iter().all(is_confirmed) {
            return;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Goes on with the groups that this site is a member of; none where its disk does not let it.
pub(crate) async fn start(core: &Arc<Core>, peers: &Rc<dyn Peers>) -> Option<Groups> {
    let mut seed = [0; 8];
    core.surroundings.fill(&mut seed);
    let limits = core.surroundings.limits();
    let parts = Parts {
        here: Member {
            site: core.site.clone(),
            incarnation: core.life.incarnation(),
        },
        wire: Rc::new(wire::PeerWire::new(core, peers)),
        disks: Rc::new(disk::StoreDisks::new(core)),
        sets: Rc::new(sets::EngineSets::new(core)),
        tuning: Tuning {
            heartbeat_ms: limits.group_heartbeat_ms,
            election_min_ms: limits.group_election_ms,
            election_max_ms: limits.group_election_ms.saturating_mul(5) / 3,
            idle_ms: limits.group_idle_s.saturating_mul(1_000),
            writes_max: limits.group_writes_max,
            ..Tuning::default()
        },
        seed: u64::from_be_bytes(seed),
    };
    match Groups::start(parts).await {
        Ok(groups) => Some(groups),
        Err(error) => {
            tracing::error!(%error, "the groups of strong sets cannot go on: nothing strong is written or read here");
            None
        }
    }
}
