//! What all cores share.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use cheops_net::Offload;
use cheops_plan::Presence;
use cheops_ports::Coordinator;
use cheops_types::Distances;

use crate::{
    Correlation, Counters, World,
    discovery::Discovery,
    memory::{Memory, Messages},
};

/// What all cores share.
pub struct Shared {
    world: ArcSwap<World>,
    generation: AtomicU64,
    pub distances: Arc<ArcSwap<Distances>>,
    pub correlation: Correlation,
    pub(crate) discovery: Discovery,
    /// What peers send for replication's sake.
    pub(crate) messages: Arc<Messages>,
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

    /// The counters of one more core.
    pub(crate) fn add_counters(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut all = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&counters));
        counters
    }

    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.counters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
