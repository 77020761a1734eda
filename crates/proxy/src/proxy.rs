//! One core's proxy: the entry for every request, and the pools behind it.

use std::{
    cell::RefCell,
    collections::HashMap,
    convert::Infallible,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use cheops_net::{
    Body, Clock, Connection, Handler, PeerLink, PeerOptions, Upstream, UpstreamOptions, UpstreamTarget,
};
use cheops_types::{Distances, Limits, ServiceName, SiteName};
use http::{Request, Response};
use hyper::body::Incoming;

use crate::{Correlation, Counters, World, client_port, head::Via, peer_port};

/// Who a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Users: only the scope header counts.
    Public,
    /// The other services of this site: correlation applies.
    Internal,
    /// One address for both: correlation applies to keys minted here.
    Shared,
    /// Other agents.
    Peer,
}

/// What a listener is for.
#[derive(Debug, Clone)]
pub struct Tag {
    pub role: Role,
    /// The service behind a client port; none on the peer port.
    pub service: Option<ServiceName>,
}

/// What all cores share.
pub struct Shared {
    world: ArcSwap<World>,
    generation: AtomicU64,
    pub distances: Arc<ArcSwap<Distances>>,
    pub correlation: Correlation,
    counters: Mutex<Vec<Arc<Counters>>>,
}

impl Shared {
    pub fn new(world: World, distances: Arc<ArcSwap<Distances>>, correlation: Correlation) -> Arc<Self> {
        Arc::new(Self {
            world: ArcSwap::from_pointee(world),
            generation: AtomicU64::new(1),
            distances,
            correlation,
            counters: Mutex::default(),
        })
    }

    pub fn world(&self) -> Arc<World> {
        self.world.load_full()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes a new configuration the current one; requests under way end with the old one.
    pub fn swap_world(&self, world: World) {
        self.world.store(Arc::new(world));
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A service as one core sees it.
pub(crate) struct Service {
    pub(crate) name: ServiceName,
    pub(crate) upstream: Rc<Upstream>,
    pub(crate) via: Via,
}

/// One generation of the configuration with this core's connections.
pub(crate) struct Core {
    generation: u64,
    pub(crate) world: Arc<World>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) counters: Arc<Counters>,
    services: HashMap<ServiceName, Rc<Service>>,
    peers: HashMap<SiteName, Rc<PeerLink>>,
}

impl Core {
    pub(crate) fn service(&self, name: &str) -> Option<&Rc<Service>> {
        self.services.get(name)
    }

    pub(crate) fn peer(&self, site: &str) -> Option<&Rc<PeerLink>> {
        self.peers.get(site)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.world.limits
    }
}

/// Handles the requests of one core.
pub struct Proxy {
    shared: Arc<Shared>,
    clock: Rc<Clock>,
    counters: Arc<Counters>,
    core: RefCell<Rc<Core>>,
}

impl Proxy {
    /// Must run on the core's own runtime.
    pub fn new(shared: Arc<Shared>, clock: Rc<Clock>) -> Rc<Self> {
        let counters = Arc::new(Counters::default());
        shared
            .counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(counters.clone());
        let core = RefCell::new(Rc::new(build(&shared, &clock, &counters, None)));
        let proxy = Rc::new(Self {
            shared,
            clock,
            counters,
            core,
        });
        tokio::task::spawn_local(keep_peers(Rc::downgrade(&proxy)));
        proxy
    }

    pub(crate) fn core(&self) -> Rc<Core> {
        let core = self.core.borrow();
        if core.generation == self.shared.generation() {
            return core.clone();
        }
        let next = Rc::new(build(&self.shared, &self.clock, &self.counters, Some(&core)));
        drop(core);
        self.core.replace(next.clone());
        next
    }
}

impl Handler for Proxy {
    type Tag = Arc<Tag>;

    async fn handle(
        self: Rc<Self>,
        connection: Rc<Connection<Arc<Tag>>>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let core = self.core();
        // The state of a plain request stays small: everything else is boxed.
        Ok(match (connection.tag.role, &connection.tag.service) {
            (Role::Peer, _) => Box::pin(peer_port::handle(&core, &connection, request)).await,
            (role, Some(service)) => client_port::handle(&core, role, service, request).await,
            (_, None) => unreachable!("a client port has a service"),
        })
    }
}

fn build(shared: &Arc<Shared>, clock: &Rc<Clock>, counters: &Arc<Counters>, old: Option<&Core>) -> Core {
    // Read before the world: a swap in between is then noticed at the next request.
    let generation = shared.generation();
    let world = shared.world();
    let limits = &world.limits;
    let options = UpstreamOptions {
        idle_max: limits.upstream_idle_max,
        connect_timeout_ms: limits.upstream_connect_timeout_ms,
        head_fields_max: limits.head_fields_max,
        head_max_bytes: limits.head_max_bytes,
    };
    let same_limits = old.is_some_and(|old| old.world.limits == *limits);
    let services = world.services.values().map(|entry| {
        let kept = old
            .filter(|_| same_limits)
            .and_then(|old| old.services.get(&entry.name))
            .filter(|service| same_target(service.upstream.target(), &entry.target));
        let service = match kept {
            Some(service) => service.clone(),
            None => Rc::new(Service {
                name: entry.name.clone(),
                upstream: Upstream::new(entry.target.clone(), options, clock.clone()),
                via: Via::new(&world.site, &entry.name),
            }),
        };
        (entry.name.clone(), service)
    });
    let services = services.collect();
    let peers = build_peers(&world, clock, old.filter(|_| same_limits));
    Core {
        generation,
        shared: shared.clone(),
        clock: clock.clone(),
        counters: counters.clone(),
        services,
        peers,
        world: world.clone(),
    }
}

fn build_peers(world: &World, clock: &Rc<Clock>, old: Option<&Core>) -> HashMap<SiteName, Rc<PeerLink>> {
    let Some(mesh) = &world.mesh else {
        return HashMap::new();
    };
    let limits = &world.limits;
    let options = PeerOptions {
        connect_timeout_ms: limits.peer_connect_timeout_ms,
        ping_ms: limits.peer_ping_ms,
        inflight_max: limits.peer_inflight_max,
        idle_ms: limits.peer_idle_s * 1000,
    };
    let same_identity = old.is_some_and(|old| old.world.mesh.as_ref().is_some_and(|old| old.is_same(mesh)));
    let mut peers = HashMap::new();
    for (site, address) in &world.peers {
        let kept = old.filter(|_| same_identity).and_then(|old| old.peers.get(site));
        let link = match kept.filter(|link| link.address() == address) {
            Some(link) => Ok(link.clone()),
            None => PeerLink::new(site.clone(), address.clone(), mesh, options, clock.clone()),
        };
        match link {
            Ok(link) => drop(peers.insert(site.clone(), link)),
            Err(error) => tracing::error!(%site, %error, "no link to the site"),
        }
    }
    peers
}

fn same_target(a: &UpstreamTarget, b: &UpstreamTarget) -> bool {
    let same_tls = match (&a.tls, &b.tls) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    same_tls && a.host == b.host && a.port == b.port && a.http == b.http
}

/// Keeps connections to peers open, or closes them when they were idle for long.
async fn keep_peers(proxy: std::rc::Weak<Proxy>) {
    loop {
        let Some(interval_ms) = proxy.upgrade().map(|proxy| {
            let core = proxy.core();
            for link in core.peers.values() {
                if core.world.keep_peers_warm {
                    let link = link.clone();
                    tokio::task::spawn_local(async move { link.warm().await.map_err(drop) });
                } else {
                    link.tidy();
                }
            }
            core.limits().heartbeat_interval_ms
        }) else {
            return;
        };
        tokio::time::sleep(std::time::Duration::from_millis(interval_ms.max(100))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the state that `handle` makes for each request.
    fn state_bytes<F: Future>(
        _: impl FnOnce(Rc<Proxy>, Rc<Connection<Arc<Tag>>>, Request<Incoming>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_state_of_a_request_stays_small() {
        // It is moved and touched for every request: 20 KiB of it cost 8 % of a plain request's time.
        let bytes = state_bytes(Proxy::handle);
        assert!(bytes <= 4096, "{bytes} bytes");
    }
}
