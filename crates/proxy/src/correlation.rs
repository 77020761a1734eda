//! Which scope belongs to which workflow. A key says it: nothing is kept for a workflow that is answered.

mod credentials;
mod held;
mod ledger;
mod read_scopes;
mod saved;
mod scopes;
mod sealed;
#[cfg(test)]
mod tests;
mod under_way;
mod workflow;

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use cheops_scope::Loc;
use cheops_types::{Limit, Limits, ServiceName, Visit};
use tokio::sync::Notify;

use crate::{KeyMaker, hex};
use credentials::{Begins, Claim, Credentials, Ended};
pub(crate) use held::Owner;
pub(crate) use read_scopes::ReadScopes;
pub use saved::{InvalidSaved, SavedScope};
use scopes::{Entering, Known, Scopes};
pub(crate) use sealed::Sealed;
use under_way::UnderWay;
pub(crate) use workflow::{Carried, Workflow};

/// What a key says.
pub(crate) enum Found {
    /// Not minted here: no scope.
    Foreign,
    /// Minted here, but its scope is gone.
    Lost,
    Known(Workflow),
}

/// Calls to a service that are about a credential.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) credential: &'a [u8],
    /// Whether the workflow began with a read.
    pub(crate) is_read: bool,
}

/// A workflow that began with a credential, while its first request is under way. It must be ended.
pub(crate) struct WithCredential {
    place: held::InUse<Claim>,
    key: u128,
    is_read: bool,
}

/// What became of the request that began a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happened {
    /// It is answered.
    Ends,
    /// It is answered, and the service goes on.
    GoesOn,
    /// No service has seen it.
    NotExecuted,
}

/// The scopes of workflows, shared by all cores.
///
/// A scope is remembered until its caller's share is needed for others, and not forgotten while a request with it
/// is under way. While a workflow with it goes on behind the answer it is the last to leave, and it outlives the process:
/// whoever runs it saves what [`Correlation::unsaved`] tells and gives it back with [`Correlation::restore`].
pub struct Correlation {
    keys: KeyMaker,
    scopes: Scopes,
    under_way: UnderWay,
    credentials: Credentials,
    /// Scopes that are to be saved, by generation.
    unsaved: Mutex<HashSet<u64>>,
    has_unsaved: Notify,
    /// Whether a service has brought a scope with a call: then nobody can say of such a call to which workflow it belongs.
    passes_scopes: AtomicBool,
    start: Instant,
}

impl Correlation {
    pub fn new(keys: KeyMaker) -> Self {
        Self {
            keys,
            scopes: Scopes::default(),
            under_way: UnderWay::default(),
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

    pub(crate) fn keys(&self) -> &KeyMaker {
        &self.keys
    }

    /// A name for one attempt to make something, which nobody else has.
    pub(crate) fn mint_attempt(&self) -> String {
        hex::text(self.keys.attempt())
    }

    /// How many scopes are known.
    pub fn len(&self) -> usize {
        self.scopes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // === workflows ===

    /// Begins a workflow; `None` when its caller has used up his share for scopes. It must be ended.
    pub(crate) fn begin(&self, carried: &Arc<Carried>, owner: Owner, limits: &Limits) -> Option<Workflow> {
        let number = self.keys.next_number();
        let generation = carried.generation(&self.keys, number);
        let Some(known) = self.remember(generation, carried, owner, limits) else {
            Limit::CorrelationScopes.hit();
            return None;
        };
        let key = self.keys.mint(generation, number);
        self.under_way.begin(key);
        Some(Workflow {
            key,
            carried: carried.clone(),
            known: Some(known),
        })
    }

    /// Gives a scope its place, unless it has one.
    fn remember(
        &self,
        generation: u64,
        carried: &Arc<Carried>,
        owner: Owner,
        limits: &Limits,
    ) -> Option<held::InUse<Known>> {
        if let Some(known) = self.scopes.find_for(generation, carried, owner) {
            return Some(known);
        }
        let known = Known {
            generation,
            carried: carried.clone(),
        };
        let entering = Entering {
            owner,
            max_bytes: Scopes::max_bytes(carried, limits.correlation_scopes_max_bytes),
            now_ms: self.now_ms(),
        };
        self.scopes.enter(known, entering)
    }

    /// Finds the workflow of a key.
    pub(crate) fn find(&self, key: u128, limits: &Limits) -> Found {
        let Some(generation) = self.keys.open(key) else {
            return Found::Foreign;
        };
        let Some(known) = self.scopes.find(generation) else {
            return Found::Lost;
        };
        if known.kept_until_ms() > 0 {
            // It goes on.
            self.keep(&known, limits);
        }
        Found::Known(Workflow {
            key,
            carried: known.value.carried.clone(),
            known: Some(known),
        })
    }

    /// Notes that a workflow goes on behind its answer: its scope is kept, and saved.
    pub(crate) fn goes_on(&self, workflow: &Workflow, limits: &Limits) {
        if let Some(known) = &workflow.known {
            self.keep(known, limits);
        }
    }

    fn keep(&self, known: &held::InUse<Known>, limits: &Limits) {
        let was_until_ms = known.keep(self.async_until_ms(limits));
        if was_until_ms <= self.now_ms() {
            lock(&self.unsaved).insert(known.value.generation);
            self.has_unsaved.notify_one();
        }
    }

    /// Notes sites that a call of a workflow reached, for the request that began it.
    pub(crate) fn note(&self, workflow: &Workflow, visits: impl IntoIterator<Item = Visit>) {
        self.under_way.note(workflow.key, visits);
    }

    /// The request that began a workflow is answered: what its later calls have reached.
    pub(crate) fn end(&self, workflow: &Workflow) -> Vec<Visit> {
        self.under_way.end(workflow.key)
    }

    /// Forgets what is over.
    pub fn expire(&self) {
        let now_ms = self.now_ms();
        self.scopes.release_kept(now_ms);
        self.credentials.expire(now_ms);
    }

    fn async_until_ms(&self, limits: &Limits) -> u64 {
        let idle_ms = limits.correlation_async_idle_s.saturating_mul(1000);
        self.now_ms().saturating_add(idle_ms)
    }

    // === the scope itself, in carriers that have room for it ===

    /// The scope of a workflow, as nobody else can write it beside the key; none where it is too long.
    pub(crate) fn seal(&self, workflow: &Workflow) -> Option<Sealed> {
        let Workflow { key, carried, .. } = workflow;
        Sealed::of(carried, || {
            self.keys.seal(*key, carried.inside_replica, &carried.text)
        })
    }

    /// Reads it again, and remembers it if there is room.
    pub(crate) fn unseal(&self, key: u128, sealed: &str, limits: &Limits) -> Option<Workflow> {
        let (seal, inside_replica, text) = sealed::read(sealed)?;
        if self.keys.seal(key, inside_replica, &text) != seal {
            return None;
        }
        let carried = Carried::read_again(&text, inside_replica, limits)?;
        let generation = self.keys.open(key)?;
        let known = self.remember(generation, &carried, Owner::new(None, None), limits);
        Some(Workflow { key, carried, known })
    }

    // === by credential ===

    /// Notes that a workflow begins with a credential, for calls to `about.service` that are about it; `None` when there
    /// is no room. `loc` is where the workflow's scope says that the service is.
    pub(crate) fn begin_with_credential(
        &self,
        about: About<'_>,
        loc: &Loc,
        workflow: &Workflow,
        owner: Owner,
        limits: &Limits,
    ) -> Option<WithCredential> {
        let place = self.credentials.begin(Begins {
            service: about.service,
            loc,
            fingerprint: self.keys.credential(about.credential),
            key: workflow.key,
            owner,
            now_ms: self.now_ms(),
            max_bytes: limits.correlation_credentials_max_bytes,
            is_needed: workflow.carried.inside_replica,
        })?;
        Some(WithCredential {
            place,
            key: workflow.key,
            is_read: about.is_read,
        })
    }

    /// The request that began the workflow ended.
    pub(crate) fn end_with_credential(&self, with: WithCredential, happened: Happened, limits: &Limits) {
        let lasts_s = match happened {
            Happened::GoesOn => limits.correlation_async_idle_s,
            _ if with.is_read => limits.correlation_credential_read_s,
            _ => limits.correlation_credential_s,
        };
        let until_ms = self.now_ms().saturating_add(lasts_s.saturating_mul(1000));
        self.credentials
            .end(with.place, with.key, Ended { happened, until_ms });
    }

    /// The workflows that began with a credential and whose scopes say where `service` is: for each place, the
    /// one that began last, with what its scope says of the service. `None` when a place is known no more although a workflow
    /// goes on there.
    pub(crate) fn find_by_credential(&self, service: &str, credential: &[u8]) -> Option<Vec<Workflow>> {
        if self.credentials.is_empty() {
            return Some(Vec::new());
        }
        let fingerprint = self.keys.credential(credential);
        self.credentials.find(service, fingerprint, self.now_ms())
    }

    // === what outlives the process ===

    /// Waits until there is something to save, and takes it.
    pub async fn unsaved(&self) -> Vec<SavedScope> {
        loop {
            let saved = self.take_unsaved();
            if !saved.is_empty() {
                return saved;
            }
            self.has_unsaved.notified().await;
        }
    }

    /// What was not taken yet.
    pub fn take_unsaved(&self) -> Vec<SavedScope> {
        let generations = std::mem::take(&mut *lock(&self.unsaved));
        let saved = |generation| self.scopes.find(generation).map(|known| known.value.to_saved());
        generations.into_iter().filter_map(saved).collect()
    }

    /// Everything that is to outlive the process, taken before or not.
    pub fn to_be_kept(&self) -> Vec<SavedScope> {
        let now_ms = self.now_ms();
        let mut kept = Vec::new();
        self.scopes.for_each(|known| {
            if known.kept_until_ms() > now_ms {
                kept.push(known.value.to_saved());
            }
        });
        kept
    }

    /// Remembers a scope of before; false when there is no room for it.
    pub fn restore(&self, saved: &SavedScope, limits: &Limits) -> bool {
        let Some(carried) = saved.carried(limits) else {
            return false;
        };
        let known = self.remember(saved.generation, &carried, Owner::COMMON, limits);
        if let Some(known) = &known {
            known.keep(self.async_until_ms(limits));
        }
        known.is_some()
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }
}

/// Every change under these locks is complete in one step, so a panicked holder left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
