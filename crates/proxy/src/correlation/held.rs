//! Something that a bounded table keeps for somebody.

use std::sync::{
    Arc,
    atomic::{
        AtomicU32, AtomicU64,
        Ordering::{AcqRel, Relaxed, Release},
    },
};

/// Whose share of a table counts: an address, and within it the credential that it showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    address: u64,
    credential: u64,
}

impl Owner {
    /// Nobody in particular: several addresses use it, or nobody knows who did.
    pub(crate) const COMMON: Self = Self {
        address: 0,
        credential: 0,
    };

    /// An address that is not counted, as the configuration says.
    const UNCOUNTED: u64 = 1;

    pub(crate) fn new(address: Option<u64>, credential: Option<u64>) -> Self {
        Self {
            address: address.map_or(Self::UNCOUNTED, |address| address.max(Self::UNCOUNTED + 1)),
            credential: credential.map_or(0, |credential| credential.max(1)),
        }
    }

    pub(super) fn raw(address: u64, credential: u64) -> Self {
        Self { address, credential }
    }

    /// Whether its address has a share of its own.
    pub(super) fn is_counted(self) -> bool {
        self.address > Self::UNCOUNTED
    }

    pub(super) fn address(self) -> u64 {
        self.address
    }

    pub(super) fn credential(self) -> u64 {
        self.credential
    }

    /// Whether what belongs to `self` belongs to `other`, too.
    fn includes(self, other: Self) -> bool {
        self.address == Self::COMMON.address
            || self.address == other.address && (self.credential == 0 || self.credential == other.credential)
    }

    /// To whom it belongs when both use it.
    pub(super) fn with(self, other: Self) -> Self {
        if self.includes(other) {
            self
        } else if self.address == other.address {
            Self {
                credential: 0,
                ..self
            }
        } else {
            Self::COMMON
        }
    }
}

/// In [`Held::uses`]: it left the table, and nobody may begin to use it.
const GONE: u32 = 1 << 31;
/// In [`Held::uses`]: a workflow with it goes on, so that it leaves last.
const KEPT: u32 = 1 << 30;

/// A value in a table, with what decides whether it may leave.
#[derive(Debug)]
pub(super) struct Held<T> {
    pub(super) value: T,
    pub(super) bytes: usize,
    /// How many requests under way use it.
    uses: AtomicU32,
    /// When it was last used, by the table's own clock.
    used_at: AtomicU64,
    /// Until when it is kept.
    kept_until_ms: AtomicU64,
    address: AtomicU64,
    credential: AtomicU64,
}

impl<T> Held<T> {
    pub(super) fn new(value: T, bytes: usize, owner: Owner) -> Arc<Self> {
        Arc::new(Self {
            value,
            bytes,
            uses: AtomicU32::new(0),
            used_at: AtomicU64::new(0),
            kept_until_ms: AtomicU64::new(0),
            address: AtomicU64::new(owner.address),
            credential: AtomicU64::new(owner.credential),
        })
    }

    /// Begins to use it, unless it is gone.
    pub(super) fn take(self: &Arc<Self>) -> Option<InUse<T>> {
        let more = |uses: u32| (uses & GONE == 0).then_some(uses + 1);
        self.uses.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(InUse(self.clone()))
    }

    /// Makes it leave for good, unless it is in use or kept.
    pub(super) fn retire(&self) -> bool {
        self.uses.compare_exchange(0, GONE, Relaxed, Relaxed).is_ok()
    }

    /// Makes it leave although it is kept, unless it is in use.
    pub(super) fn retire_kept(&self) -> bool {
        let gone = KEPT | GONE;
        self.uses.compare_exchange(KEPT, gone, Relaxed, Relaxed).is_ok()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.uses.load(Relaxed) & GONE != 0
    }

    pub(super) fn is_in_use(&self) -> bool {
        self.uses.load(Relaxed) & !(GONE | KEPT) != 0
    }

    /// Notes that it is used; most often nothing has to be written.
    pub(super) fn touch(&self, now: u64) {
        if self.used_at.load(Relaxed) != now {
            self.used_at.store(now, Relaxed);
        }
    }

    pub(super) fn used_at(&self) -> u64 {
        self.used_at.load(Relaxed)
    }

    /// Keeps it until then, and tells until when it was kept before. Only what is in use.
    pub(super) fn keep(&self, until_ms: u64) -> u64 {
        let before = self.kept_until_ms.swap(until_ms, Relaxed);
        self.uses.fetch_or(KEPT, Release);
        before
    }

    /// Until when it is kept; 0 when it never was.
    pub(super) fn kept_until_ms(&self) -> u64 {
        self.kept_until_ms.load(Relaxed)
    }

    /// Whether it is kept. If not, it may retire. Only under the ledger's lock.
    pub(super) fn is_kept(&self, now_ms: u64) -> bool {
        if self.kept_until_ms() > now_ms {
            return true;
        }
        // Mostly it never was.
        if self.kept_until_ms() == 0 {
            return false;
        }
        self.uses.fetch_and(!KEPT, AcqRel);
        let is_kept_again = self.kept_until_ms() > now_ms;
        if is_kept_again {
            self.uses.fetch_or(KEPT, Relaxed);
        }
        is_kept_again
    }

    /// Whether it was still kept when it left.
    pub(super) fn left_early(&self) -> bool {
        self.uses.load(Relaxed) == KEPT | GONE
    }

    /// Changed only under the ledger's lock. Who reads it in between finds an owner who is told to come again.
    pub(super) fn owner(&self) -> Owner {
        Owner {
            address: self.address.load(Relaxed),
            credential: self.credential.load(Relaxed),
        }
    }

    pub(super) fn is_of(&self, owner: Owner) -> bool {
        self.owner().includes(owner)
    }

    pub(super) fn give_to(&self, owner: Owner) {
        self.credential.store(owner.credential, Relaxed);
        self.address.store(owner.address, Relaxed);
    }
}

/// A use by a request under way: what is used does not leave its table.
#[derive(Debug)]
pub(super) struct InUse<T>(Arc<Held<T>>);

impl<T> Drop for InUse<T> {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Relaxed);
    }
}

impl<T> std::ops::Deref for InUse<T> {
    type Target = Arc<Held<T>>;

    fn deref(&self) -> &Arc<Held<T>> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_and_what_is_gone_is_not_used() {
        let held = Held::new((), 1, Owner::COMMON);
        let uses = [held.take().unwrap(), held.take().unwrap()];
        assert!(!held.retire());
        drop(uses);
        assert!(held.retire());
        assert!(held.take().is_none());
    }

    #[test]
    fn what_is_kept_leaves_by_its_own_way_only() {
        let held = Held::new((), 1, Owner::COMMON);
        let in_use = held.take().unwrap();
        held.keep(10);
        assert!(held.is_in_use() && !held.retire_kept());
        drop(in_use);
        // Whoever saw that it was not kept, just before.
        assert!(!held.retire());
        assert!(held.is_kept(9) && !held.retire());
        assert!(!held.is_kept(10) && !held.retire_kept());
        held.take().unwrap().keep(20);
        assert!(held.is_kept(10) && !held.left_early());
        assert!(held.retire_kept());
        assert!(held.left_early() && held.take().is_none());
    }

    #[test]
    fn what_several_use_belongs_to_all_of_them() {
        let owner = |address, credential| Owner::new(Some(address), credential);
        let (mine, yours) = (owner(7, Some(1)), owner(7, Some(2)));
        let held = Held::new((), 1, mine);
        assert!(held.is_of(mine) && !held.is_of(yours) && !held.is_of(owner(7, None)));
        assert_eq!(mine.with(mine), mine);
        assert_eq!(mine.with(yours), owner(7, None));
        held.give_to(mine.with(yours));
        assert!(held.is_of(mine) && held.is_of(yours) && !held.is_of(owner(8, None)));
        assert_eq!(held.owner().with(owner(8, None)), Owner::COMMON);
        held.give_to(Owner::COMMON);
        assert!(held.is_of(mine) && held.is_of(owner(9, Some(3))));
    }
}
