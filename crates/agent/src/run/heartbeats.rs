//! One heartbeat task per configured peer, on the control runtime with connections of its own.

use std::{collections::HashMap, rc::Rc};

use cheops_mesh::{Pulses, beat};
use cheops_net::{Clock, PeerLink, PeerOptions};
use cheops_proxy::World;
use cheops_types::SiteName;
use tokio::task::AbortHandle;

struct Beating {
    address: String,
    task: AbortHandle,
}

pub(super) struct Heartbeats {
    pulses: Pulses,
    clock: Rc<Clock>,
    beating: HashMap<SiteName, Beating>,
}

impl Heartbeats {
    /// Must run on the control runtime, with `clock` swept there.
    pub(super) fn new(pulses: Pulses, clock: Rc<Clock>) -> Self {
        Self {
            pulses,
            clock,
            beating: HashMap::new(),
        }
    }

    /// Beats for the peers of `world`, and no others. `restart` begins anew for all, as a changed
    /// identity or limit asks for.
    pub(super) fn apply(&mut self, world: &World, restart: bool) {
        self.pulses.set_misses_max(world.limits.heartbeat_misses_max);
        self.beating.retain(|site, beating| {
            let stays = !restart && world.peers.get(site) == Some(&beating.address);
            if !stays {
                beating.task.abort();
            }
            stays
        });
        self.pulses.retain(|site| world.peers.contains_key(site));
        let Some(mesh) = &world.mesh else { return };
        let options = PeerOptions::from(&world.limits);
        let interval_ms = world.limits.heartbeat_interval_ms;
        for (site, address) in &world.peers {
            if self.beating.contains_key(site) {
                continue;
            }
            match PeerLink::new(site.clone(), address.clone(), mesh, options, self.clock.clone()) {
                Ok(link) => {
                    let beat = beat(link, self.pulses.clone(), self.clock.clone(), interval_ms);
                    let task = tokio::task::spawn_local(beat).abort_handle();
                    self.beating.insert(
                        site.clone(),
                        Beating {
                            address: address.clone(),
                            task,
                        },
                    );
                }
                Err(error) => tracing::error!(%site, %error, "no heartbeats to the site"),
            }
        }
    }
}
