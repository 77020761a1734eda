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
    Carried, Happened, Workflow,
    held::{Held, InUse, Owner},
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
pub(super) struct Place {
    service: ServiceName,
    fingerprint: u128,
    /// A scope that says this place and nothing else.
    carried: Arc<Carried>,
    keys: Mutex<Keys>,
    /// Until when it counts, once no request that began with it is under way.
    expires_ms: AtomicU64,
}

/// The workflows that began with the place.
#[derive(Debug, Default)]
struct Keys {
    /// Those whose first request is under way, in the order in which they began.
    under_way: Vec<u128>,
    /// Of the others, the one whose first request ended last.
    ended: Option<u128>,
}

/// That a workflow begins.
#[derive(Clone, Copy)]
pub(super) struct Begins<'a> {
    pub(super) service: &'a ServiceName,
    pub(super) loc: &'a Loc,
    pub(super) fingerprint: u128,
    pub(super) key: u128,
    pub(super) owner: Owner,
    pub(super) now_ms: u64,
    pub(super) max_bytes: usize,
}

/// How the request ended that began a workflow.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) happened: Happened,
    /// Until when calls about its credential may come.
    pub(super) until_ms: u64,
}

impl Credentials {
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Notes that a workflow begins. Its place neither expires nor leaves before it is told that the workflow's first
    /// request ended. None when there is no room.
    pub(super) fn begin(&self, begins: Begins<'_>) -> Option<InUse<Place>> {
        let begun = &mut *lock(&self.begun);
        begun.clock += 1;
        let known = begun
            .find(begins.service, begins.fingerprint, begins.loc)
            .cloned();
        let held = match known {
            Some(held) => {
                held.touch(begun.clock);
                if !held.is_of(begins.owner) {
                    begun.ledger.share(&held, begins.owner, begun.clock);
                }
                held
            }
            None => begun.enter(begins)?,
        };
        self.len.store(begun.ledger.len(), Relaxed);
        lock(&held.value.keys).under_way.push(begins.key);
        held.take()
    }

    /// The first request of a workflow ended. A place that no service has seen is forgotten.
    pub(super) fn end(&self, place: InUse<Place>, key: u128, ended: Ended) {
        let begun = &mut *lock(&self.begun);
        let held = place.clone();
        drop(place);
        let is_seen = {
            let mut keys = lock(&held.value.keys);
            keys.under_way.retain(|other| *other != key);
            if ended.happened != Happened::NotExecuted {
                keys.ended = Some(key);
                held.value.expires_ms.fetch_max(ended.until_ms, Relaxed);
            }
            keys.latest().is_some()
        };
        if ended.happened == Happened::GoesOn {
            held.keep(ended.until_ms);
        }
        if !is_seen {
            begun.leave(&held);
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
            .filter(|place| !is_over(place, now_ms));
        current
            .filter_map(|place| {
                Some(Workflow {
                    key: lock(&place.value.keys).latest()?,
                    carried: place.value.carried.clone(),
                    known: None,
                })
            })
            .collect()
    }

    /// Drops what is over.
    pub(super) fn expire(&self, now_ms: u64) {
        if self.is_empty() {
            return;
        }
        let begun = &mut *lock(&self.begun);
        begun.ledger.release_kept(begun.clock, now_ms);
        let places = begun.places.values().flat_map(HashMap::values).flatten();
        let over: Vec<_> = places.filter(|place| is_over(place, now_ms)).cloned().collect();
        for place in over {
            begun.leave(&place);
        }
        self.len.store(begun.ledger.len(), Relaxed);
    }
}

fn is_over(place: &Held<Place>, now_ms: u64) -> bool {
    !place.is_in_use() && place.value.expires_ms.load(Relaxed) <= now_ms
}

impl Keys {
    fn latest(&self) -> Option<u128> {
        self.under_way.last().copied().or(self.ended)
    }
}

impl Begun {
    fn find(&self, service: &str, fingerprint: u128, loc: &Loc) -> Option<&Arc<Held<Place>>> {
        let places = self.places.get(service)?.get(&fingerprint)?;
        places
            .iter()
            .find(|place| place.value.carried.scope.loc_of(service) == Some(loc))
    }

    fn enter(&mut self, begins: Begins<'_>) -> Option<Arc<Held<Place>>> {
        let service = begins.service;
        let entry = Entry::new(service.clone(), begins.loc.clone());
        let place = Place {
            service: service.clone(),
            fingerprint: begins.fingerprint,
            carried: Carried::new(Scope::Full(vec![entry])),
            keys: Mutex::default(),
            expires_ms: AtomicU64::new(0),
        };
        let bytes = BASE_BYTES + BYTES_PER_BYTE * place.carried.text.len();
        let held = Held::new(place, bytes, begins.owner);
        let room = Room {
            max_bytes: begins.max_bytes,
            now: self.clock,
            now_ms: begins.now_ms,
        };
        let mut left = Vec::new();
        let is_entered = self.ledger.enter(&held, room, &mut left);
        for place in &left {
            self.forget(place);
        }
        if !left.is_empty() || !is_entered {
            Limit::CorrelationCredentials.hit();
        }
        if !is_entered {
            return None;
        }
        let of_service = self.places.entry(service.clone()).or_default();
        of_service
            .entry(begins.fingerprint)
            .or_default()
            .push(held.clone());
        Some(held)
    }

    /// Takes a place out, unless it is in use.
    fn leave(&mut self, place: &Arc<Held<Place>>) {
        self.ledger.leave(place);
        if place.is_gone() {
            self.forget(place);
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
