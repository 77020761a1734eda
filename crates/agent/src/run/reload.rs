//! A new configuration for a running agent, whole or not at all.

use std::sync::Arc;

use arc_swap::ArcSwap;
use cheops_proxy::Shared;
use cheops_types::{Code, Problem};
use tokio::sync::oneshot;

use super::{heartbeats::Heartbeats, listeners::Listeners, replication::Replication, world::WorldMaker};
use crate::{admin::ReloadAnswer, config::Config};

/// A wish for a reload.
pub(super) struct Reload {
    pub(super) answer: oneshot::Sender<Result<ReloadAnswer, Problem>>,
}

/// Everything that a reload touches.
pub(super) struct Reloader {
    pub(super) config: Arc<ArcSwap<Config>>,
    pub(super) shared: Arc<Shared>,
    pub(super) worlds: WorldMaker,
    pub(super) listeners: Listeners,
    pub(super) heartbeats: Heartbeats,
    pub(super) replication: Replication,
}

impl Reloader {
    pub(super) fn reload(&mut self) -> Result<ReloadAnswer, Problem> {
        let old = self.config.load_full();
        let new = Config::load(&old.path).map_err(|errors| refused(&errors.render(false)))?;
        check_fixed(&old, &new)?;
        let world = self
            .worlds
            .make(&new)
            .map_err(|error| refused(&format!("{error:#}")))?;
        // Bound before anything changes, because it can fail; opened when their services are known.
        let prepared = self
            .listeners
            .prepare(&new)
            .map_err(|error| refused(&format!("{error:#}")))?;
        self.replication
            .reload(&new)
            .map_err(|error| refused(&format!("{error:#}")))?;
        let old_world = self.shared.world();
        let same_identity = match (&old_world.mesh, &world.mesh) {
            (Some(old), Some(new)) => old.is_same(new),
            (None, None) => true,
            _ => false,
        };
        self.shared.swap_world(world);
        let mut changes = self.listeners.commit(prepared);
        let restart = !same_identity || old.limits != new.limits;
        self.heartbeats.apply(&self.shared.world(), restart);
        changes.extend(describe(&old, &new));
        self.config.store(Arc::new(new));
        Ok(ReloadAnswer {
            generation: self.shared.generation(),
            changes,
        })
    }
}

fn refused(detail: &str) -> Problem {
    Problem::new(Code::ConfigRefused, detail)
}

/// What a running agent cannot change.
fn check_fixed(old: &Config, new: &Config) -> Result<(), Problem> {
    let fixed = [
        ("site", old.site.to_string(), new.site.to_string()),
        (
            "data_dir",
            old.data_dir.display().to_string(),
            new.data_dir.display().to_string(),
        ),
        ("workers", old.workers.to_string(), new.workers.to_string()),
    ];
    match fixed.iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((key, old, new)) => Err(refused(&format!(
            "`{key}` cannot change while the agent runs (it is `{old}`, the file says `{new}`): restart the agent, or put it back"
        ))),
    }
}

fn describe(old: &Config, new: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    for (name, site) in &new.sites {
        match old.sites.get(name) {
            None => changes.push(format!("site {name} is known at {}", site.address)),
            Some(before) if before != site => changes.push(format!("site {name} is now at {}", site.address)),
            Some(_) => {}
        }
    }
    changes.extend(
        old.sites
            .keys()
            .filter(|name| !new.sites.contains_key(*name))
            .map(|name| format!("site {name} is no longer known")),
    );
    for (name, service) in &new.services {
        if old
            .services
            .get(name)
            .is_some_and(|before| before.upstream != service.upstream)
        {
            let upstream = &service.upstream;
            changes.push(format!(
                "service {name} is now at {}:{}",
                upstream.host, upstream.port
            ));
        }
    }
    let revoked = |config: &Config| config.peer.as_ref().map(|peer| peer.revoked.clone());
    if revoked(old) != revoked(new) {
        changes.push("other certificates are revoked; connections of peers begin anew".to_owned());
    }
    if old.glue != new.glue {
        changes.push("the glue is another one".to_owned());
    }
    if old.limits != new.limits {
        changes.push(
            "limits changed; those of client connections count for listeners opened from now on".to_owned(),
        );
    }
    changes
}
