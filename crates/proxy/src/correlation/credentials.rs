//! Which workflows began with which credential.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
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
/// How many places that left too early are known, at 48 bytes. Beyond that nothing leaves for something new that a workflow
/// which goes on needs.
const LOST_MAX: usize = 16 * 1024;

/// Where services are for those who come with a credential. Only what a scope says of a service is in it, so it is empty
/// for most applications and most of the time.
#[derive(Default)]
pub(super) struct Credentials {
    begun: Mutex<Begun>,
    /// How many places are known, or known to be lost.
    len: AtomicUsize,
}

type ByFingerprint = HashMap<u128, Vec<Arc<Held<Claim>>>>;

#[derive(Default)]
struct Begun {
    /// By service and fingerprint.
    places: HashMap<ServiceName, ByFingerprint>,
    ledger: Ledger<Claim>,
    /// The places that left although a workflow goes on there, and until when it does. They are few.
    lost: BTreeMap<LostPlace, u64>,
    clock: u64,
}

/// A fingerprint, and the hash of a scope that says the place of one service and nothing else.
type LostPlace = (u128, u64);

/// One service's place in the scopes of workflows with one credential.
#[derive(Debug)]
pub(super) struct Claim {
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
    /// Whether it begins although there is no room.
    pub(super) is_needed: bool,
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
    pub(super) fn begin(&self, begins: Begins<'_>) -> Option<InUse<Claim>> {
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
        self.len.store(begun.len(), Relaxed);
        lock(&held.value.keys).under_way.push(begins.key);
        held.take()
    }

    /// The first request of a workflow ended. A place that no service has seen is forgotten.
    pub(super) fn end(&self, place: InUse<Claim>, key: u128, ended: Ended) {
        let begun = &mut *lock(&self.begun);
        let held = place.clone();
        if ended.happened == Happened::GoesOn {
            held.keep(ended.until_ms);
        }
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
        if !is_seen {
            begun.leave(&held);
            self.len.store(begun.len(), Relaxed);
        }
    }

    /// For each place, the workflow that began last; `None` when one of the places is lost.
    pub(super) fn find(&self, service: &str, fingerprint: u128, now_ms: u64) -> Option<Vec<Workflow>> {
        let begun = lock(&self.begun);
        let places = begun.places.get(service).and_then(|of| of.get(&fingerprint));
        let current = places
            .into_iter()
            .flatten()
            .filter(|place| !is_over(place, now_ms));
        let current: Vec<_> = current.collect();
        let of_credential = (fingerprint, 0)..=(fingerprint, u64::MAX);
        let mut lost = begun.lost.range(of_credential);
        let is_lost = lost
            .any(|(id, until_ms)| *until_ms > now_ms && !current.iter().any(|place| place.value.id() == *id));
        if is_lost {
            return None;
        }
        let workflow = |place: &Arc<Held<Claim>>| {
            Some(Workflow {
                key: lock(&place.value.keys).latest()?,
                carried: place.value.carried.clone(),
                known: None,
            })
        };
        Some(current.into_iter().filter_map(workflow).collect())
    }

    /// Drops what is over.
    pub(super) fn expire(&self, now_ms: u64) {
        if self.is_empty() {
            return;
        }
        let begun = &mut *lock(&self.begun);
        begun.ledger.release_kept(begun.clock, now_ms);
        begun.lost.retain(|_, until_ms| *until_ms > now_ms);
        let places = begun.places.values().flat_map(HashMap::values).flatten();
        let may_leave = |place: &&Arc<Held<Claim>>| is_over(place, now_ms) && !place.is_kept(now_ms);
        let over: Vec<_> = places.filter(may_leave).cloned().collect();
        for place in over {
            begun.leave(&place);
        }
        self.len.store(begun.len(), Relaxed);
    }
}

fn is_over(place: &Held<Claim>, now_ms: u64) -> bool {
    !place.is_in_use() && place.value.expires_ms.load(Relaxed) <= now_ms
}

impl Keys {
    fn latest(&self) -> Option<u128> {
        self.under_way.last().copied().or(self.ended)
    }
}

impl Claim {
    fn id(&self) -> LostPlace {
        let mut hasher = DefaultHasher::new();
        self.carried.text.hash(&mut hasher);
        (self.fingerprint, hasher.finish())
    }
}

impl Begun {
    fn len(&self) -> usize {
        self.ledger.len() + self.lost.len()
    }

    fn find(&self, service: &str, fingerprint: u128, loc: &Loc) -> Option<&Arc<Held<Claim>>> {
        let places = self.places.get(service)?.get(&fingerprint)?;
        places
            .iter()
            .find(|place| place.value.carried.scope.loc_of(service) == Some(loc))
    }

    fn enter(&mut self, begins: Begins<'_>) -> Option<Arc<Held<Claim>>> {
        let service = begins.service;
        let entry = Entry::new(service.clone(), begins.loc.clone());
        let place = Claim {
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
            is_needed: begins.is_needed,
            takes_kept: self.lost.len() < LOST_MAX,
        };
        let mut left = Vec::new();
        let is_entered = self.ledger.enter(&held, room, &mut left);
        for place in &left {
            self.forget(place);
            if place.left_early() {
                self.lost.insert(place.value.id(), place.kept_until_ms());
            }
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
    fn leave(&mut self, place: &Arc<Held<Claim>>) {
        self.ledger.leave(place);
        if place.is_gone() {
            self.forget(place);
        }
    }

    fn forget(&mut self, place: &Arc<Held<Claim>>) {
        let Claim {
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
