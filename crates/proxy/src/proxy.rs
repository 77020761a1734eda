//! One core's proxy: the entry for every request, and the pools behind it.

use std::{
    cell::RefCell,
    convert::Infallible,
    rc::Rc,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use cheops_net::{Body, Clock, Connection, Handler, Offload};
use cheops_plan::{Coordinator, Presence};
use cheops_types::{Distances, ServiceName, headers};
use http::{Method, Request, Response, Version};
use hyper::body::{Body as _, Incoming};

use crate::{
    Correlation, Counters, World, answer, client_port, core::Core, discovery::Discovery, gather::Memory,
    peer_port,
};

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
    pub(crate) discovery: Discovery,
    /// What peers send for replication's sake.
    pub(crate) messages: Arc<peer_port::Budget>,
    /// What merges and rewritten answers have in memory.
    pub(crate) memory: Arc<Memory>,
    /// Work on bodies that are too long for a core.
    pub(crate) offload: Offload,
    /// What is replicated here; whoever replicates keeps it.
    pub presence: Arc<Presence>,
    replication: OnceLock<Arc<dyn Coordinator>>,
    counters: Mutex<Vec<Arc<Counters>>>,
}

impl Shared {
    pub fn new(
        world: World,
        distances: Arc<ArcSwap<Distances>>,
        correlation: Correlation,
        presence: Arc<Presence>,
    ) -> Arc<Self> {
        Arc::new(Self {
            world: ArcSwap::from_pointee(world),
            generation: AtomicU64::new(1),
            distances,
            correlation,
            discovery: Discovery::default(),
            messages: Arc::default(),
            memory: Arc::default(),
            offload: Offload::default(),
            presence,
            replication: OnceLock::new(),
            counters: Mutex::default(),
        })
    }

    /// Makes replication available, once.
    pub fn attach(&self, coordinator: Arc<dyn Coordinator>) {
        if self.replication.set(coordinator).is_err() {
            tracing::error!("replication is attached already");
        }
    }

    pub(crate) fn replication(&self) -> Option<&Arc<dyn Coordinator>> {
        self.replication.get()
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

/// Handles the requests of one core.
pub struct Proxy {
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
        let core = Core::new(shared, clock, counters);
        let proxy = Rc::new(Self {
            core: RefCell::new(Rc::new(core)),
        });
        tokio::task::spawn_local(keep_peers(Rc::downgrade(&proxy)));
        proxy
    }

    pub(crate) fn core(&self) -> Rc<Core> {
        let core = self.core.borrow();
        if core.is_current() {
            return core.clone();
        }
        let next = Rc::new(core.renew());
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
        let is_head = request.method() == Method::HEAD;
        let is_http2 = request.version() == Version::HTTP_2;
        let is_endless = is_endless(&core, &connection.tag, &request);
        // The state of a plain request stays small: everything else is boxed, and what it goes through are
        // blocks, because an `async fn` has room for its arguments twice.
        let mut response = match (connection.tag.role, &connection.tag.service) {
            (Role::Peer, _) => Box::pin(peer_port::handle(&core, &connection, request)).await,
            (_, Some(service)) => client_port::handle(&core, &connection, service, request).await,
            (_, None) => unreachable!("a client port has a service"),
        };
        connection.answered();
        if is_head {
            answer::drop_body(&mut response);
        } else if is_endless && response.body().size_hint().exact().is_none() {
            response = response.map(|body| body.until(connection.ending()));
        }
        if is_http2 {
            response = response.map(|body| connection.paced(body));
        }
        Ok(response)
    }
}

/// Whether the glue says that the answer does not end by itself.
fn is_endless(core: &Core, tag: &Tag, request: &Request<Incoming>) -> bool {
    let named = || request.headers().get(headers::PEER_SERVICE)?.to_str().ok();
    let service = tag.service.as_deref().or_else(named);
    let (profile, uri) = (&core.world.profile, request.uri());
    service.is_some_and(|service| profile.is_stream(service, uri.path(), uri.query()))
}

/// Keeps connections to peers open, or closes them when they were idle for long.
async fn keep_peers(proxy: std::rc::Weak<Proxy>) {
    loop {
        let Some(interval_ms) = proxy.upgrade().map(|proxy| {
            let core = proxy.core();
            for link in core.peers() {
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
