//! One generation of the configuration with one core's connections.

mod collect;
mod receipts;

use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};

use cheops_net::{
    Body, Clock, NotDone, PeerLink, PeerOptions, Trailers, Upstream, UpstreamOptions, UpstreamTarget,
};
use cheops_ports::Coordinator;
use cheops_types::{Code, Limit, Limits, Outcome, Problem, ServiceName, SiteName, headers};
use http::Response;

use receipts::Receipts;

use crate::{
    Counted, Counters, Shared, World, answer,
    correlation::ReadScopes,
    service::{Service, Via, identity::Identity},
};

/// What a request needs from its core. A request keeps the generation that it began with.
pub(crate) struct Core {
    generation: u64,
    pub(crate) world: Arc<World>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) counters: Arc<Counters>,
    /// Not hashed: for a few names that every request looks for that would be the dearer way.
    services: BTreeMap<ServiceName, Rc<Service>>,
    peers: HashMap<SiteName, Rc<PeerLink>>,
    /// What answers of this site say most often.
    pub(crate) receipts: Receipts,
    /// What other agents carry.
    pub(crate) carried_scopes: ReadScopes,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>, clock: Rc<Clock>, counters: Arc<Counters>) -> Self {
        // Read before the world: a swap in between is then noticed at the next request.
        let generation = shared.generation();
        let world = shared.world();
        let services = services(&world, &clock, None);
        let peers = peers(&world, &clock, None);
        Self {
            generation,
            world,
            shared,
            clock,
            counters,
            services,
            peers,
            receipts: Receipts::default(),
            carried_scopes: ReadScopes::default(),
        }
    }

    pub(crate) fn is_current(&self) -> bool {
        self.generation == self.shared.generation()
    }

    /// The current generation. What is configured as before keeps its connections.
    pub(crate) fn renew(&self) -> Self {
        let generation = self.shared.generation();
        let world = self.shared.world();
        let old = Some(self).filter(|old| old.world.limits == world.limits);
        Self {
            generation,
            services: services(&world, &self.clock, old),
            peers: peers(&world, &self.clock, old),
            world,
            shared: self.shared.clone(),
            clock: self.clock.clone(),
            counters: self.counters.clone(),
            receipts: Receipts::default(),
            carried_scopes: ReadScopes::default(),
        }
    }

    /// Has work done that takes longer the longer a body is: here where it is short, else beside the cores, so that
    /// the other requests of this core do not wait for it.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        body_bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Code> {
        let limits = self.limits();
        if body_bytes <= limits.work_inline_max_bytes {
            return Ok(work());
        }
        Limit::WorkInline.hit();
        let done = self.shared.offload.run(limits, work).await;
        done.map_err(|error| match error {
            NotDone::Full => Code::GatherBusy,
            NotDone::Failed => Code::Internal,
        })
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Rc<Service>> {
        self.services.get(name)
    }

    pub(crate) fn peer(&self, site: &str) -> Option<&Rc<PeerLink>> {
        self.peers.get(site)
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = &Rc<PeerLink>> {
        self.peers.values()
    }

    /// Replication, where this site has it.
    pub(crate) fn replication(&self) -> Result<&Arc<dyn Coordinator>, Problem> {
        self.shared.replication().ok_or_else(|| {
            let here = &self.world.site;
            let detail = format!("site `{here}` does not replicate: it has no store");
            Problem::new(Code::NotAvailable, detail).at(here)
        })
    }

    /// The answer to a request that certainly executed nowhere; a peer may go elsewhere with it.
    pub(crate) fn refuse(&self, problem: &Problem) -> Response<Body> {
        self.counters.add(Counted::Problems);
        answer::failure(problem, &self.world.site, Outcome::NotExecuted)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.world.limits
    }
}

fn services(world: &World, clock: &Rc<Clock>, old: Option<&Core>) -> BTreeMap<ServiceName, Rc<Service>> {
    let options = UpstreamOptions::from(&world.limits);
    let services = world.services.values().map(|entry| {
        let old = old.and_then(|old| old.services.get(&entry.name));
        let upstream = |target: &UpstreamTarget, kept: Option<&Rc<Upstream>>| {
            let kept = kept.filter(|kept| same_target(kept.target(), target));
            match kept {
                Some(kept) => kept.clone(),
                None => Upstream::new(target.clone(), options, clock.clone()),
            }
        };
        let vouched = entry.vouched.as_ref();
        let identity = Identity::of_service(&world.profile, &entry.name);
        let own = [headers::SCOPE, headers::INTERNAL_PREFIX, headers::RECEIPT];
        let stripped = identity.iter().flat_map(Identity::stripped);
        let trailers = Trailers::without(own.into_iter().chain(stripped));
        let service = Rc::new(Service {
            name: entry.name.clone(),
            upstream: upstream(&entry.target, old.map(|old| &old.upstream)),
            vouched: vouched.map(|target| upstream(target, old.and_then(|old| old.vouched.as_ref()))),
            identity,
            is_offered: entry.is_offered,
            trailers: Rc::new(trailers),
            vouch: entry.vouch.clone(),
            via: Via::new(&world.site, &entry.name),
            scopes: ReadScopes::default(),
        });
        (entry.name.clone(), service)
    });
    services.collect()
}

fn peers(world: &World, clock: &Rc<Clock>, old: Option<&Core>) -> HashMap<SiteName, Rc<PeerLink>> {
    let Some(mesh) = &world.mesh else {
        return HashMap::new();
    };
    let options = PeerOptions::from(&world.limits);
    let old = old.filter(|old| old.world.mesh.as_ref().is_some_and(|old| old.is_same(mesh)));
    let mut peers = HashMap::new();
    for (site, address) in &world.peers {
        let kept = old.and_then(|old| old.peers.get(site));
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
