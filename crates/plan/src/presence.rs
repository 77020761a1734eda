//! What is certainly not replicated here.

use std::{
    hash::Hasher as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use siphasher::sip::SipHasher13;

/// The least number of places.
const PLACES_MIN: usize = 1024;

/// Fingerprints of all resources here that belong to a replica set, and of their kinds.
///
/// A miss is certain, a hit is to be confirmed by the store. Reading takes no lock: one load when nothing is
/// replicated, a hash and a load or two otherwise. What is removed stays until the next start; it costs a
/// look-up, never a wrong answer.
#[derive(Debug)]
pub struct Presence {
    count: AtomicUsize,
    table: ArcSwap<Places>,
    writer: Mutex<()>,
}

/// Open addressing with linear probing; 0 is a free place.
type Places = Box<[AtomicU64]>;

impl Default for Presence {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Presence {
    /// With room for so many resources.
    pub fn with_capacity(resources: usize) -> Self {
        Self {
            count: AtomicUsize::new(0),
            table: ArcSwap::from_pointee(places(resources * 3)),
            writer: Mutex::new(()),
        }
    }

    /// Whether nothing at all is replicated here.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether a kind may have replica sets here.
    pub fn has_kind(&self, service: &str, kind: &str) -> bool {
        !self.is_empty() && self.has(fingerprint(service, kind, None))
    }

    /// Whether a resource may be a replica. `id` is anything that it is called by.
    pub fn has_id(&self, service: &str, kind: &str, id: &str) -> bool {
        !self.is_empty() && self.has(fingerprint(service, kind, Some(id)))
    }

    /// Adds a resource under one of the ids that it is called by, and its kind.
    pub fn add(&self, service: &str, kind: &str, id: &str) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.insert(fingerprint(service, kind, None));
        self.insert(fingerprint(service, kind, Some(id)));
        drop(writer);
    }

    fn has(&self, print: u64) -> bool {
        let table = self.table.load();
        find(&table, print).is_ok()
    }

    /// By one writer at a time.
    fn insert(&self, print: u64) {
        let mut table = self.table.load_full();
        let Err(mut place) = find(&table, print) else {
            return;
        };
        let count = self.count.load(Ordering::Relaxed);
        // At most three of four places are taken, so that every search ends soon.
        if (count + 1) * 4 > table.len() * 3 {
            let larger = places(table.len() * 2);
            for print in table.iter().map(|place| place.load(Ordering::Relaxed)) {
                if let (1.., Err(place)) = (print, find(&larger, print)) {
                    larger[place].store(print, Ordering::Relaxed);
                }
            }
            self.table.store(larger.into());
            table = self.table.load_full();
            place = find(&table, print).unwrap_or_else(|place| place);
        }
        table[place].store(print, Ordering::Release);
        self.count.store(count + 1, Ordering::Release);
    }
}

fn places(wanted: usize) -> Places {
    let len = wanted.next_power_of_two().max(PLACES_MIN);
    (0..len).map(|_| AtomicU64::new(0)).collect()
}

/// The place of a fingerprint, or the free one where it belongs.
fn find(table: &[AtomicU64], print: u64) -> Result<usize, usize> {
    let mask = table.len() - 1;
    let mut place = print as usize & mask;
    loop {
        match table[place].load(Ordering::Acquire) {
            0 => return Err(place),
            found if found == print => return Ok(place),
            _ => place = (place + 1) & mask,
        }
    }
}

fn fingerprint(service: &str, kind: &str, id: Option<&str>) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in [Some(service), Some(kind), id].into_iter().flatten() {
        hasher.write(part.as_bytes());
        // No text of UTF-8 has this byte.
        hasher.write_u8(0xff);
    }
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_that_was_added_and_nothing_else() {
        let presence = Presence::default();
        assert!(presence.is_empty());
        assert!(!presence.has_kind("A", "order"));
        for id in 0..10_000 {
            presence.add("A", "order", &id.to_string());
        }
        assert!(presence.has_kind("A", "order"));
        assert!(!presence.has_kind("A", "orde"));
        assert!(!presence.has_kind("B", "order"));
        assert!((0..10_000).all(|id| presence.has_id("A", "order", &id.to_string())));
        assert!(!(10_000..20_000).any(|id| presence.has_id("A", "order", &id.to_string())));
        assert!(!presence.has_id("A", "orde", "r1"));
    }

    #[test]
    fn readers_never_miss_what_was_there_before_they_looked() {
        let presence = Presence::default();
        let added = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in 0..20_000 {
                    presence.add("A", "order", &id.to_string());
                    added.store(id + 1, Ordering::Release);
                }
            });
            scope.spawn(|| {
                while added.load(Ordering::Acquire) < 20_000 {
                    let last = added.load(Ordering::Acquire);
                    if last > 0 {
                        assert!(presence.has_id("A", "order", &(last - 1).to_string()));
                    }
                }
            });
        });
    }
}
