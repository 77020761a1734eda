//! Which scope belongs to which workflow: a bounded table from minted keys to scopes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use cheops_scope::Scope;
use cheops_types::{Limit, Visit};

use crate::KeyMaker;

const SHARDS: usize = 16;
/// Steps of one workflow that its receipt can tell.
const STEPS_MAX: usize = 32;

/// A scope on its way: parsed once, in full form, with its text.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) scope: Scope,
    pub(crate) text: String,
    /// Whether a replica executes an operation: the other sites do the same at theirs.
    pub(crate) inside_replica: bool,
}

impl Carried {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Arc::new(Self {
            text: scope.to_string(),
            scope,
            inside_replica: false,
        })
    }
}

/// One workflow under way.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) key: u128,
    pub(crate) carried: Arc<Carried>,
    last_used_ms: AtomicU64,
    steps: Mutex<Vec<Visit>>,
}

impl Workflow {
    /// Notes sites that a call of the workflow reached.
    pub(crate) fn note(&self, visits: impl IntoIterator<Item = Visit>) {
        let mut steps = lock(&self.steps);
        for visit in visits {
            if steps.len() < STEPS_MAX {
                steps.push(visit);
            }
        }
    }

    pub(crate) fn take_steps(&self) -> Vec<Visit> {
        std::mem::take(&mut *lock(&self.steps))
    }
}

/// What a key says.
pub(crate) enum Found {
    /// Not minted here: no scope.
    Foreign,
    /// Minted here, but its scope is gone.
    Lost,
    Known(Arc<Workflow>),
}

/// The table, shared by all cores.
pub struct Correlation {
    keys: KeyMaker,
    shards: [Mutex<HashMap<u128, Arc<Workflow>>>; SHARDS],
    len: AtomicUsize,
    start: Instant,
}

impl Correlation {
    pub fn new(keys: KeyMaker) -> Self {
        Self {
            keys,
            shards: Default::default(),
            len: AtomicUsize::new(0),
            start: Instant::now(),
        }
    }

    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_ours(&self, key: u128) -> bool {
        self.keys.is_ours(key)
    }

    /// Remembers a scope under a new key; `None` when the table is full.
    pub(crate) fn begin(&self, carried: Arc<Carried>, max: usize) -> Option<Arc<Workflow>> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            Limit::Correlation.hit();
            return None;
        }
        let key = self.keys.mint();
        let workflow = Arc::new(Workflow {
            key,
            carried,
            last_used_ms: AtomicU64::new(self.now_ms()),
            steps: Mutex::default(),
        });
        lock(self.shard(key)).insert(key, workflow.clone());
        Some(workflow)
    }

    /// Finds the workflow of a key and renews it.
    pub(crate) fn find(&self, key: u128) -> Found {
        if !self.keys.is_ours(key) {
            return Found::Foreign;
        }
        match lock(self.shard(key)).get(&key) {
            Some(workflow) => {
                workflow.last_used_ms.store(self.now_ms(), Ordering::Relaxed);
                Found::Known(workflow.clone())
            }
            None => Found::Lost,
        }
    }

    /// Forgets one workflow.
    pub(crate) fn end(&self, key: u128) {
        if lock(self.shard(key)).remove(&key).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets workflows that nobody used for `idle_ms`.
    pub fn expire(&self, idle_ms: u64) {
        let now_ms = self.now_ms();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let before = shard.len();
            shard.retain(|_, workflow| {
                now_ms.saturating_sub(workflow.last_used_ms.load(Ordering::Relaxed)) <= idle_ms
            });
            self.len.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
    }

    fn shard(&self, key: u128) -> &Mutex<HashMap<u128, Arc<Workflow>>> {
        &self.shards[(key >> 64) as usize % SHARDS]
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// Every change under these locks is complete in one step, so a panicked holder left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
