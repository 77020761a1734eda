//! The scopes of workflows, each once for all workflows that have it.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use cheops_types::Limit;

use super::{
    Carried,
    held::{Held, InUse, Owner},
    ledger::{Ledger, Room},
    lock,
};

const SHARDS: usize = 64;
/// What a scope takes in memory at least, with its places in the tables.
const BASE_BYTES: usize = 512;
/// What each byte of its text may become when it is parsed.
const BYTES_PER_BYTE: usize = 48;
/// Of what callers' scopes may take, what those of replays may take beside them.
const REPLAYS_SHARE: usize = 4;

/// A scope that is known, and by what.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) generation: u64,
    pub(super) carried: Arc<Carried>,
}

/// Found by generation. Callers and replays have places of their own, so that neither needs one that the other
/// can use up. A replay is never refused for want of room: there are only so many under way.
pub(super) struct Scopes {
    shards: [RwLock<Generations>; SHARDS],
    callers: Places,
    replays: Places,
}

type Generations = HashMap<u64, Arc<Held<Known>>, BuildHasherDefault<AsItIs>>;

#[derive(Default)]
struct Places {
    /// Goes on with each new scope.
    clock: AtomicU64,
    ledger: Mutex<Ledger<Known>>,
}

/// For whom a scope gets its place, and when.
#[derive(Clone, Copy)]
pub(super) struct Entering {
    pub(super) owner: Owner,
    pub(super) max_bytes: usize,
    pub(super) now_ms: u64,
}

impl Default for Scopes {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| RwLock::default()),
            callers: Places::default(),
            replays: Places::default(),
        }
    }
}

impl Scopes {
    pub(super) fn len(&self) -> usize {
        lock(&self.callers.ledger).len() + lock(&self.replays.ledger).len()
    }

    /// The scope of a generation, which stays as long as it is in use.
    pub(super) fn find(&self, generation: u64) -> Option<InUse<Known>> {
        let held = self.read(generation).get(&generation)?.take()?;
        held.touch(self.places(&held.value.carried).clock.load(Relaxed));
        Some(held)
    }

    /// The same for one who brings the scope himself: it becomes his, too. None when another scope has the generation.
    pub(super) fn find_for(&self, generation: u64, carried: &Carried, owner: Owner) -> Option<InUse<Known>> {
        let held = self.find(generation)?;
        if held.value.carried.text != carried.text
            || held.value.carried.inside_replica != carried.inside_replica
        {
            return None;
        }
        if !held.is_of(owner) {
            let places = self.places(carried);
            lock(&places.ledger).share(&held, owner, places.clock.load(Relaxed));
        }
        Some(held)
    }

    /// Gives a scope a place; none when nothing may leave for it.
    pub(super) fn enter(&self, known: Known, entering: Entering) -> Option<InUse<Known>> {
        let places = self.places(&known.carried);
        let mut left = Vec::new();
        let mut ledger = lock(&places.ledger);
        // Another core may have been first.
        if let Some(held) = self.find(known.generation) {
            drop(ledger);
            drop(held);
            return self.find_for(known.generation, &known.carried, entering.owner);
        }
        let bytes = BASE_BYTES + BYTES_PER_BYTE * known.carried.text.len();
        let generation = known.generation;
        let held = Held::new(known, bytes, entering.owner);
        let in_use = held.take()?;
        let room = Room {
            max_bytes: entering.max_bytes,
            now: places.clock.fetch_add(1, Relaxed) + 1,
            now_ms: entering.now_ms,
            // A replay that is under way has its scope in memory anyhow.
            is_needed: held.value.carried.inside_replica,
            takes_kept: true,
        };
        let is_entered = ledger.enter(&held, room, &mut left);
        for held in &left {
            if held.left_early() {
                Limit::CorrelationScopes.hit();
            }
            self.write(held.value.generation).remove(&held.value.generation);
        }
        if !is_entered {
            return None;
        }
        self.write(generation).insert(generation, held);
        Some(in_use)
    }

    /// What all scopes of such a request may take.
    pub(super) fn max_bytes(carried: &Carried, callers_max_bytes: usize) -> usize {
        if carried.inside_replica {
            callers_max_bytes / REPLAYS_SHARE
        } else {
            callers_max_bytes
        }
    }

    pub(super) fn release_kept(&self, now_ms: u64) {
        for places in [&self.callers, &self.replays] {
            lock(&places.ledger).release_kept(places.clock.load(Relaxed), now_ms);
        }
    }

    pub(super) fn for_each(&self, mut see: impl FnMut(&Held<Known>)) {
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().for_each(|held| see(held));
        }
    }

    fn places(&self, carried: &Carried) -> &Places {
        if carried.inside_replica {
            &self.replays
        } else {
            &self.callers
        }
    }

    fn read(&self, generation: u64) -> RwLockReadGuard<'_, Generations> {
        let shard = &self.shards[generation as usize % SHARDS];
        shard.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, generation: u64) -> RwLockWriteGuard<'_, Generations> {
        let shard = &self.shards[generation as usize % SHARDS];
        shard.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A generation is a keyed fingerprint already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table wants the upper bits to differ as well, and a generation has none there.
        self.0 = number.rotate_left(40);
    }
}
