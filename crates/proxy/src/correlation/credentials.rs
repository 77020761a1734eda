//! Which workflows began with which credential.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use cheops_scope::{Entry, Loc, Scope};
use cheops_types::{Limit, ServiceName};

use super::{
    Carried, Workflow,
    held::{Held, Owner},
    ledger::{Ledger, Room},
    lock,
};

/// What a place takes in memory at least, and what each byte of it may take.
const BASE_BYTES: usize = 512;
const BYTES_PER_BYTE: usize = 48;

/// Where services are for those who come with a credential. Only what a scope says of a service is in it, so it is empty
/// for most applications and most of the time.
#[derive(Default)]
pub(super) struct Credentials {
    begun: Mutex<Begun>,
    /// How many fingerprints there are.
    len: AtomicUsize,
}

type ByFingerprint = HashMap<u128, Vec<Arc<Held<Place>>>>;

#[derive(Default)]
struct Begun {
    /// By service and fingerprint.
    places: HashMap<ServiceName, ByFingerprint>,
    ledger: Ledger<Place>,
    clock: u64,
}

/// One service's place in the scopes of workflows with one credential.
#[derive(Debug)]
struct Place {
    service: ServiceName,
    fingerprint: u128,
    /// A scope that says this place and nothing else.
    carried: Arc<Carried>,
    last: Mutex<Last>,
    expires_ms: AtomicU64,
}

/// The workflow that began last, and how many did.
#[derive(Debug, Clone, Copy)]
struct Last {
    key: u128,
    begun: u64,
}

/// That a workflow began, and how long that counts.
#[derive(Clone, Copy)]
pub(super) struct Began<'a> {
    pub(super) service: &'a ServiceName,
    pub(super) fingerprint: u128,
    pub(super) workflow: &'a Workflow,
    pub(super) owner: Owner,
    pub(super) now_ms: u64,
    pub(super) lasts_ms: u64,
    pub(super) max_bytes: usize,
}

impl Credentials {
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Notes the beginning, or that it counts for longer.
    pub(super) fn note(&self, began: Began<'_>, is_again: bool) {
        let scope = &began.workflow.carried.scope;
        let Some(loc) = scope.loc_of(began.service) else {
            return;
        };
        let expires_ms = began.now_ms.saturating_add(began.lasts_ms);
        let begun = &mut *lock(&self.begun);
        begun.clock += 1;
        let known = begun.find(began.service, began.fingerprint, loc).cloned();
        if let Some(held) = &known {
            if !is_again {
                let mut last = lock(&held.value.last);
                last.key = began.workflow.key;
                last.begun += 1;
            }
            held.value.expires_ms.fetch_max(expires_ms, Relaxed);
            held.touch(begun.clock);
            if !held.is_of(began.owner) {
                begun.ledger.share(held, began.owner, begun.clock);
            }
            return;
        }
        let place = Place {
            service: began.service.clone(),
            fingerprint: began.fingerprint,
            carried: Carried::new(Scope::Full(vec![Entry::new(began.service.clone(), loc.clone())])),
            last: Mutex::new(Last {
                key: began.workflow.key,
                begun: 1,
            }),
            expires_ms: AtomicU64::new(expires_ms),
        };
        begun.enter(place, began);
        self.len.store(begun.ledger.len(), Relaxed);
    }

    /// A workflow has not begun after all: no service has seen it.
    pub(super) fn take_back(&self, service: &ServiceName, fingerprint: u128, workflow: &Workflow) {
        let Some(loc) = workflow.carried.scope.loc_of(service) else {
            return;
        };
        let begun = &mut *lock(&self.begun);
        let Some(place) = begun.find(service, fingerprint, loc).cloned() else {
            return;
        };
        let mut last = lock(&place.value.last);
        last.begun -= 1;
        if last.begun == 0 {
            begun.ledger.leave(&place);
            begun.forget(&place);
            self.len.store(begun.ledger.len(), Relaxed);
        }
    }

    /// For each place, the workflow that began last.
    pub(super) fn find(&self, service: &str, fingerprint: u128, now_ms: u64) -> Vec<Workflow> {
        let begun = lock(&self.begun);
        let places = begun.places.get(service).and_then(|of| of.get(&fingerprint));
        let current = places
            .into_iter()
            .flatten()
            .filter(|place| place.value.expires_ms.load(Relaxed) > now_ms);
        current
            .map(|place| Workflow {
                key: lock(&place.value.last).key,
                carried: place.value.carried.clone(),
                known: None,
            })
            .collect()
    }

    /// Drops what is over.
    pub(super) fn expire(&self, now_ms: u64) {
        if self.is_empty() {
            return;
        }
        let begun = &mut *lock(&self.begun);
        let is_over = |held: &Held<Place>| held.value.expires_ms.load(Relaxed) <= now_ms;
        let mut over = Vec::new();
        for place in begun.places.values().flat_map(HashMap::values).flatten() {
            if is_over(place) {
                over.push(place.clone());
            }
        }
        for place in over {
            begun.ledger.leave(&place);
            begun.forget(&place);
        }
        self.len.store(begun.ledger.len(), Relaxed);
    }
}

impl Begun {
    fn find(&self, service: &str, fingerprint: u128, loc: &Loc) -> Option<&Arc<Held<Place>>> {
        let places = self.places.get(service)?.get(&fingerprint)?;
        places
            .iter()
            .find(|place| place.value.carried.scope.loc_of(service) == Some(loc))
    }

    fn enter(&mut self, place: Place, began: Began<'_>) {
        let bytes = BASE_BYTES + BYTES_PER_BYTE * place.carried.text.len();
        let held = Held::new(place, bytes, began.owner);
        let room = Room {
            max_bytes: began.max_bytes,
            now: self.clock,
            now_ms: began.now_ms,
        };
        let mut left = Vec::new();
        let is_entered = self.ledger.enter(&held, room, &mut left);
        for place in &left {
            self.forget(place);
        }
        if !left.is_empty() || !is_entered {
            Limit::CorrelationCredentials.hit();
        }
        if is_entered {
            let of_service = self.places.entry(began.service.clone()).or_default();
            of_service.entry(began.fingerprint).or_default().push(held);
        }
    }

    fn forget(&mut self, place: &Arc<Held<Place>>) {
        let Place {
            service, fingerprint, ..
        } = &place.value;
        let Some(of_service) = self.places.get_mut(service) else {
            return;
        };
        if let Some(places) = of_service.get_mut(fingerprint) {
            places.retain(|other| !Arc::ptr_eq(other, place));
            if places.is_empty() {
                of_service.remove(fingerprint);
            }
        }
    }
}
