//! Who has how much of a bounded table, and what leaves it for something new.
//!
//! The table is `max_bytes` large. One address holds at most a quarter of it, one credential there at most an
//! eighth. Whoever has his share gives up his own least recently used. When the table is full although nobody has
//! more than his share, an address with less than a 64th of it may take from the one that holds most. So a flood by
//! one address costs the others a 64th at most, and a newcomer always finds a place. What is in use never leaves; what
//! is kept for a workflow that goes on leaves only when whoever has to give has nothing else, the oldest first.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use super::held::{Held, Owner};

/// Of the table, what one address may hold.
const ADDRESS_SHARE: usize = 4;
/// Of the table, what one credential may hold at one address.
const CREDENTIAL_SHARE: usize = 8;
/// Of the table, what may be nobody's in particular. What several addresses use beyond that stays the first one's.
const COMMON_SHARE: usize = 2;
/// Of the table, what an address may take from others.
const CLAIM: usize = 64;
/// How many are looked at, so that many that are in use cost one request little.
const LOOKS_MAX: usize = 64;
/// How many addresses are asked for something that may leave.
const ADDRESSES_ASKED_MAX: usize = 8;

/// What a new entry needs.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) max_bytes: usize,
    /// By the table's own clock.
    pub(super) now: u64,
    pub(super) now_ms: u64,
    /// Whether it is entered although there is no room.
    pub(super) is_needed: bool,
    /// Whether what is kept may leave for it.
    pub(super) takes_kept: bool,
}

pub(super) struct Ledger<T> {
    bytes: usize,
    len: usize,
    /// By the limit of the last entry.
    common_max_bytes: usize,
    addresses: HashMap<u64, Address<T>>,
    /// The addresses, those that hold most last.
    by_bytes: BTreeSet<(usize, u64)>,
}

struct Address<T> {
    bytes: usize,
    groups: HashMap<u64, Group<T>>,
    by_bytes: BTreeSet<(usize, u64)>,
}

/// What belongs to one owner.
struct Group<T> {
    bytes: usize,
    len: usize,
    /// In the order in which they may leave, each with the time at which it was queued. What was used since is queued
    /// again when its turn comes. May have some that belong to others by now.
    queue: VecDeque<(Arc<Held<T>>, u64)>,
    /// Those whose turn came while they were kept, in that order.
    kept: VecDeque<Arc<Held<T>>>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self {
            bytes: 0,
            len: 0,
            common_max_bytes: 0,
            addresses: HashMap::new(),
            by_bytes: BTreeSet::new(),
        }
    }
}

impl<T> Ledger<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Enters something new and takes out what has to leave for it, in `left`. False when too little may leave: then
    /// it is not entered.
    pub(super) fn enter(&mut self, held: &Arc<Held<T>>, room: Room, left: &mut Vec<Arc<Held<T>>>) -> bool {
        let owner = held.owner();
        self.common_max_bytes = room.max_bytes / COMMON_SHARE;
        while let Some(from) = self.who_gives(owner, held.bytes, room.max_bytes) {
            let mut take = |what| match from {
                Giver::Group => self.take_from(owner.address(), Some(owner.credential()), room, what),
                Giver::Address => self.take_from(owner.address(), None, room, what),
                Giver::Largest => self.take_from_largest(room, what),
            };
            let mut given = take(What::Unkept);
            if given.is_none() && room.takes_kept {
                given = take(What::Kept);
            }
            match given {
                Some(given) => left.push(given),
                None if room.is_needed => break,
                None => return false,
            }
        }
        self.add(held, owner, room.now);
        self.len += 1;
        true
    }

    /// Takes something out before its turn, unless it is in use.
    pub(super) fn leave(&mut self, held: &Held<T>) {
        if held.retire() {
            self.remove(held.bytes, held.owner());
            self.len -= 1;
        }
    }

    /// It is used by another one, too.
    pub(super) fn share(&mut self, held: &Arc<Held<T>>, other: Owner, now: u64) {
        let before = held.owner();
        let owner = before.with(other);
        let has_room = owner != Owner::COMMON || self.bytes_of(owner).0 + held.bytes <= self.common_max_bytes;
        if owner != before && has_room {
            held.give_to(owner);
            self.remove(held.bytes, before);
            self.add(held, owner, now);
        }
    }

    /// Lets those leave in turn that need not be kept any more.
    pub(super) fn release_kept(&mut self, now: u64, now_ms: u64) {
        for (address, groups) in &mut self.addresses {
            for (credential, group) in &mut groups.groups {
                let is_mine = |held: &Held<T>| is_of(held, *address, *credential);
                for held in std::mem::take(&mut group.kept) {
                    if held.is_kept(now_ms) {
                        group.kept.push_back(held);
                    } else if is_mine(&held) {
                        group.queue.push_back((held, now));
                    }
                }
                group.tidy(&is_mine);
            }
        }
    }

    // === who has to give something ===

    fn who_gives(&self, owner: Owner, bytes: usize, max_bytes: usize) -> Option<Giver> {
        let (of_address, of_group) = self.bytes_of(owner);
        let address_max = if owner.is_counted() {
            max_bytes / ADDRESS_SHARE
        } else if owner == Owner::COMMON {
            max_bytes / COMMON_SHARE
        } else {
            max_bytes
        };
        if owner.credential() != 0 && of_group + bytes > max_bytes / CREDENTIAL_SHARE {
            Some(Giver::Group)
        } else if of_address + bytes > address_max {
            Some(Giver::Address)
        } else if self.bytes + bytes <= max_bytes {
            None
        } else if of_address + bytes > max_bytes / CLAIM && of_address > 0 {
            Some(Giver::Address)
        } else {
            Some(Giver::Largest)
        }
    }

    /// What an address has, and one credential there.
    fn bytes_of(&self, owner: Owner) -> (usize, usize) {
        self.addresses.get(&owner.address()).map_or((0, 0), |address| {
            let group = address.groups.get(&owner.credential());
            (address.bytes, group.map_or(0, |group| group.bytes))
        })
    }

    fn take_from_largest(&mut self, room: Room, what: What) -> Option<Arc<Held<T>>> {
        let largest = self.by_bytes.iter().rev().take(ADDRESSES_ASKED_MAX);
        let largest: Vec<u64> = largest.map(|(_, address)| *address).collect();
        largest
            .into_iter()
            .find_map(|address| self.take_from(address, None, room, what))
    }

    /// The least recently used of an address: of one credential, or of the one that holds most.
    fn take_from(
        &mut self,
        address: u64,
        credential: Option<u64>,
        room: Room,
        what: What,
    ) -> Option<Arc<Held<T>>> {
        let groups = self.addresses.get_mut(&address)?;
        let asked: Vec<u64> = if let Some(credential) = credential {
            vec![credential]
        } else {
            // What is entered anyway costs no small one what it keeps.
            let asked_max = match what {
                What::Kept if room.is_needed => 1,
                What::Kept | What::Unkept => ADDRESSES_ASKED_MAX,
            };
            let largest = groups.by_bytes.iter().rev().take(asked_max);
            largest.map(|(_, credential)| *credential).collect()
        };
        let (held, credential) = asked.into_iter().find_map(|credential| {
            let is_mine = |held: &Held<T>| is_of(held, address, credential);
            let group = groups.groups.get_mut(&credential)?;
            let given = match what {
                What::Unkept => group.give(&is_mine, room),
                What::Kept => group.give_kept(&is_mine),
            };
            Some((given?, credential))
        })?;
        self.remove(held.bytes, Owner::raw(address, credential));
        self.len -= 1;
        Some(held)
    }

    // === accounts ===

    fn add(&mut self, held: &Arc<Held<T>>, owner: Owner, now: u64) {
        self.account(owner, |bytes, len| (bytes + held.bytes, len + 1));
        if let Some(address) = self.addresses.get_mut(&owner.address())
            && let Some(group) = address.groups.get_mut(&owner.credential())
        {
            group.queue.push_back((held.clone(), now));
        }
    }

    fn remove(&mut self, bytes: usize, owner: Owner) {
        self.account(owner, |before, len| (before - bytes, len - 1));
    }

    /// Changes what a group has. What has nothing any more is forgotten.
    fn account(&mut self, owner: Owner, change: impl FnOnce(usize, usize) -> (usize, usize)) {
        let (id, credential) = (owner.address(), owner.credential());
        let address = self.addresses.entry(id).or_default();
        let group = address.groups.entry(credential).or_default();
        let (of_group, of_address) = (group.bytes, address.bytes);
        (group.bytes, group.len) = change(group.bytes, group.len);
        let is_mine = |held: &Held<T>| is_of(held, id, credential);
        group.tidy(&is_mine);
        let bytes = group.bytes;
        address.bytes = address.bytes - of_group + bytes;
        self.bytes = self.bytes - of_group + bytes;
        address.by_bytes.remove(&(of_group, credential));
        self.by_bytes.remove(&(of_address, id));
        if group.len == 0 {
            address.groups.remove(&credential);
        } else {
            address.by_bytes.insert((bytes, credential));
        }
        if address.groups.is_empty() {
            self.addresses.remove(&id);
        } else {
            self.by_bytes.insert((address.bytes, id));
        }
    }
}

/// Who gives something up for something new.
enum Giver {
    /// The credential itself.
    Group,
    /// The address itself.
    Address,
    /// Whichever address holds most.
    Largest,
}

/// What is given up.
#[derive(Clone, Copy)]
enum What {
    Unkept,
    /// As the last resort.
    Kept,
}

/// Whether it is still there, and whose.
fn is_of<T>(held: &Held<T>, address: u64, credential: u64) -> bool {
    !held.is_gone() && held.owner() == Owner::raw(address, credential)
}

impl<T> Default for Address<T> {
    fn default() -> Self {
        Self {
            bytes: 0,
            groups: HashMap::new(),
            by_bytes: BTreeSet::new(),
        }
    }
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self {
            bytes: 0,
            len: 0,
            queue: VecDeque::new(),
            kept: VecDeque::new(),
        }
    }
}

impl<T> Group<T> {
    /// Its least recently used that may leave, retired.
    fn give(&mut self, is_mine: &impl Fn(&Held<T>) -> bool, room: Room) -> Option<Arc<Held<T>>> {
        // Once with regard to what was used lately, once without.
        for spares_used in [true, false] {
            let mut looks = self.queue.len().min(LOOKS_MAX);
            while looks > 0 {
                let (held, queued_at) = self.queue.pop_front()?;
                if !is_mine(&held) {
                    continue;
                }
                if held.is_kept(room.now_ms) {
                    self.kept.push_back(held);
                    continue;
                }
                let is_spared = spares_used && held.used_at() > queued_at;
                if !is_spared && held.retire() {
                    return Some(held);
                }
                self.queue.push_back((held, room.now));
                looks -= 1;
            }
        }
        None
    }

    /// The one that was kept first and may leave, retired.
    fn give_kept(&mut self, is_mine: &impl Fn(&Held<T>) -> bool) -> Option<Arc<Held<T>>> {
        for _ in 0..self.kept.len().min(LOOKS_MAX) {
            let held = self.kept.pop_front()?;
            if !is_mine(&held) {
                continue;
            }
            if held.retire_kept() {
                return Some(held);
            }
            self.kept.push_back(held);
        }
        None
    }

    /// Drops what belongs to others by now, when that is much.
    fn tidy(&mut self, is_mine: &impl Fn(&Held<T>) -> bool) {
        if self.queue.len() + self.kept.len() > 2 * self.len + 16 {
            self.queue.retain(|(held, _)| is_mine(held));
            self.kept.retain(|held| is_mine(held));
        }
    }
}
