//! Which scope belongs to which workflow: a bounded table from minted keys to scopes.

mod credentials;
mod saved;
#[cfg(test)]
mod tests;
mod workflow;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use cheops_types::{Limit, Limits};
use tokio::sync::Notify;

use crate::KeyMaker;
use credentials::Credentials;
pub use saved::{InvalidSaved, SavedWorkflow};
pub(crate) use workflow::{Carried, Lasting, Workflow};

const SHARDS: usize = 16;

/// What a key says.
pub(crate) enum Found {
    /// Not minted here: no scope.
    Foreign,
    /// Minted here, but its scope is gone.
    Lost,
    Known(Arc<Workflow>),
}

/// The table, shared by all cores.
///
/// A workflow is forgotten when nobody used it for as long as its kind lasts, and not while a request of it
/// is under way. Those that go on behind the answer outlive the process: whoever runs it saves what
/// [`Correlation::unsaved`] tells and gives it back with [`Correlation::restore`].
pub struct Correlation {
    keys: KeyMaker,
    shards: [Mutex<HashMap<u128, Arc<Workflow>>>; SHARDS],
    len: AtomicUsize,
    credentials: Credentials,
    /// Keys of workflows in the table that are to be saved.
    unsaved: Mutex<HashSet<u128>>,
    has_unsaved: Notify,
    /// Whether a service has brought a scope with a call: then nobody can say of such a call to which workflow it belongs.
    passes_scopes: AtomicBool,
    start: Instant,
}

impl Correlation {
    pub fn new(keys: KeyMaker) -> Self {
        Self {
            keys,
            shards: Default::default(),
            len: AtomicUsize::new(0),
            credentials: Credentials::default(),
            unsaved: Mutex::default(),
            has_unsaved: Notify::new(),
            passes_scopes: AtomicBool::new(false),
            start: Instant::now(),
        }
    }

    /// A service has brought a scope with its call.
    pub(crate) fn note_passed_scope(&self) {
        self.passes_scopes.store(true, Ordering::Relaxed);
    }

    pub(crate) fn passes_scopes(&self) -> bool {
        self.passes_scopes.load(Ordering::Relaxed)
    }

    /// A name for one attempt to make something, which nobody else has.
    pub(crate) fn mint_attempt(&self) -> String {
        format!("{:032x}", self.keys.mint())
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
    pub(crate) fn begin(&self, carried: Arc<Carried>, lasting: Lasting, max: usize) -> Option<Arc<Workflow>> {
        self.insert(self.keys.mint(), carried, lasting, max)
    }

    fn insert(
        &self,
        key: u128,
        carried: Arc<Carried>,
        lasting: Lasting,
        max: usize,
    ) -> Option<Arc<Workflow>> {
        if self.len.fetch_add(1, Ordering::Relaxed) >= max {
            self.len.fetch_sub(1, Ordering::Relaxed);
            Limit::Correlation.hit();
            return None;
        }
        let workflow = Arc::new(Workflow::new(key, carried, lasting, self.now_ms()));
        if lock(self.shard(key)).insert(key, workflow.clone()).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
        Some(workflow)
    }

    /// Finds the workflow of a key and renews it.
    pub(crate) fn find(&self, key: u128) -> Found {
        if !self.keys.is_ours(key) {
            return Found::Foreign;
        }
        match lock(self.shard(key)).get(&key) {
            Some(workflow) => {
                workflow.renew(self.now_ms());
                Found::Known(workflow.clone())
            }
            None => Found::Lost,
        }
    }

    /// Counts the time until a workflow is forgotten from now on.
    pub(crate) fn renew(&self, workflow: &Workflow) {
        workflow.renew(self.now_ms());
    }

    /// Notes that a workflow goes on behind its answer.
    pub(crate) fn goes_on(&self, workflow: &Workflow) {
        workflow.renew(self.now_ms());
        if !workflow.becomes_asynchronous() {
            return;
        }
        // Under the shard's lock: what is no longer in the table must not wait to be saved.
        let shard = lock(self.shard(workflow.key));
        if shard.contains_key(&workflow.key) {
            lock(&self.unsaved).insert(workflow.key);
            self.has_unsaved.notify_one();
        }
    }

    /// Forgets one workflow.
    pub(crate) fn end(&self, key: u128) {
        let mut shard = lock(self.shard(key));
        if shard.remove(&key).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
            lock(&self.unsaved).remove(&key);
        }
    }

    /// Forgets workflows that nobody used for as long as their kind lasts.
    pub fn expire(&self, limits: &Limits) {
        let now_ms = self.now_ms();
        for shard in &self.shards {
            let mut shard = lock(shard);
            let before = shard.len();
            shard.retain(|key, workflow| {
                // The table has one of the references, every request under way another.
                let stays = Arc::strong_count(workflow) > 1 || !workflow.is_idle(now_ms, limits);
                if !stays {
                    lock(&self.unsaved).remove(key);
                }
                stays
            });
            self.len.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
        self.credentials.tidy();
    }

    // === by credential ===

    /// Notes that a workflow began with a credential, for calls to `service` that are about it.
    pub(crate) fn note_credential(&self, service: &str, credential: &[u8], workflow: &Arc<Workflow>) {
        let fingerprint = self.keys.fingerprint(credential);
        self.credentials.note(service, fingerprint, workflow);
    }

    /// The workflows that began with a credential and whose scopes say where `service` is: for each
    /// place, the one that began last. They are not renewed: whoever else uses the credential would keep
    /// them.
    pub(crate) fn find_by_credential(&self, service: &str, credential: &[u8]) -> Vec<Arc<Workflow>> {
        if self.credentials.is_empty() {
            return Vec::new();
        }
        self.credentials.find(service, self.keys.fingerprint(credential))
    }

    // === what outlives the process ===

    /// Waits until there is something to save, and takes it.
    pub async fn unsaved(&self) -> Vec<SavedWorkflow> {
        loop {
            let saved = self.take_unsaved();
            if !saved.is_empty() {
                return saved;
            }
            self.has_unsaved.notified().await;
        }
    }

    /// What was not taken yet.
    pub fn take_unsaved(&self) -> Vec<SavedWorkflow> {
        let keys = std::mem::take(&mut *lock(&self.unsaved));
        let workflow = |key: u128| lock(self.shard(key)).get(&key).map(|found| found.to_saved());
        keys.into_iter().filter_map(workflow).collect()
    }

    /// Everything that is to outlive the process, taken before or not.
    pub fn to_be_kept(&self) -> Vec<SavedWorkflow> {
        let mut kept = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let asynchronous = shard.values().filter(|workflow| workflow.is_asynchronous());
            kept.extend(asynchronous.map(|workflow| workflow.to_saved()));
        }
        kept
    }

    /// Remembers a workflow of before; false when it is none of this site's or the table is full.
    pub fn restore(&self, saved: &SavedWorkflow, limits: &Limits) -> bool {
        let Some(carried) = saved.carried(limits).filter(|_| self.keys.is_ours(saved.key)) else {
            return false;
        };
        let max = limits.correlation_max;
        self.insert(saved.key, carried, Lasting::Asynchronous, max)
            .is_some()
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
