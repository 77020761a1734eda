//! Correlation keys, which say their scope themselves.
//!
//! A key is a trace id or a request id of 128 bits:
//!
//! ```text
//! bit 127                                    48 47              0
//!     | generation (52) | number (28) | masked |      MAC (48)      |
//! ```
//!
//! The *generation* stands for one scope in one era of this process: a keyed fingerprint of both. It is looked up in
//! the table of scopes, and nothing is kept for the key itself. The *number* makes the key the only one of its
//! generation. The *MAC* is over both, and the mask is made of the MAC, so that two keys of one scope
//! look as different as any two.
//!
//! A guess is taken for a key with a probability of 2^-48, and then its generation is as random: it finds a scope among
//! ten thousand with 2^-38 more. At 100,000 guesses per second the first is expected after 90 years, and is a 503.

use std::{
    hash::Hasher as _,
    sync::atomic::{AtomicU64, Ordering},
};

use siphasher::{
    sip::SipHasher24,
    sip128::{self, Hasher128 as _},
};

/// What is sealed up to this length is put together first, which is cheaper than to feed it piece by piece. It gives the same.
const SEALED_AT_ONCE_BYTES: usize = 160;

const MAC_BITS: u32 = 48;
const NUMBER_BITS: u32 = 28;
const GENERATION_BITS: u32 = 52;
const MAC_MASK: u64 = (1 << MAC_BITS) - 1;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What a fingerprint is of, so that no two kinds are ever equal.
#[derive(Clone, Copy)]
enum Of {
    Scope,
    ScopeInsideReplica,
    Credential,
    Caller,
    Attempt,
}

/// Mints and opens keys. The MAC secret outlives the process, so that a key of before a restart is still
/// recognised as one of ours. The nonce secret must be new at each start: with it generations are new, too,
/// and the keys of before find their scope only where that was kept with its generation.
pub struct KeyMaker {
    mac: SipHasher24,
    mask: sip128::SipHasher24,
    seals: SipHasher24,
    fingerprints: sip128::SipHasher24,
    /// What stands for this process.
    process: u128,
    numbers: AtomicU64,
}

/// The number of one workflow of this process. Its upper bits are the era: when the numbers of a key are used up, every
/// scope gets a new generation.
#[derive(Clone, Copy)]
pub(crate) struct Number(u64);

/// An era of one process. No two have the same, of whatever process they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era(u128);

impl KeyMaker {
    pub fn new(mac_secret: &[u8; 16], nonce_secret: &[u8; 16]) -> Self {
        let derive = |what: u8| {
            let mut hasher = sip128::SipHasher24::new_with_key(mac_secret);
            hasher.write_u8(what);
            hasher.finish128().as_bytes()
        };
        let fingerprints = sip128::SipHasher24::new_with_key(nonce_secret);
        Self {
            mac: SipHasher24::new_with_key(&derive(0)),
            mask: sip128::SipHasher24::new_with_key(&derive(1)),
            seals: SipHasher24::new_with_key(&derive(2)),
            process: fingerprints.hash(&[]).as_u128(),
            fingerprints,
            numbers: AtomicU64::new(0),
        }
    }

    pub(crate) fn next_number(&self) -> Number {
        Number(self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn era(&self, number: Number) -> Era {
        Era(self.process.wrapping_add(u128::from(number.0 >> NUMBER_BITS)))
    }

    /// The generation of a scope in the era of `number`.
    pub(crate) fn generation(&self, number: Number, is_inside_replica: bool, scope: &str) -> u64 {
        let of = if is_inside_replica {
            Of::ScopeInsideReplica
        } else {
            Of::Scope
        };
        let era = number.0 >> NUMBER_BITS;
        (self.fingerprint(of, era, scope.as_bytes()) >> (128 - GENERATION_BITS)) as u64
    }

    pub(crate) fn mint(&self, generation: u64, number: Number) -> u128 {
        let content = u128::from(generation) << NUMBER_BITS | u128::from(number.0 & NUMBER_MASK);
        let mac = self.mac(content);
        (content ^ self.mask(mac)) << MAC_BITS | u128::from(mac)
    }

    /// The generation of a key of ours; none for a stranger's.
    pub(crate) fn open(&self, key: u128) -> Option<u64> {
        let mac = key as u64 & MAC_MASK;
        let content = key >> MAC_BITS ^ self.mask(mac);
        (self.mac(content) == mac).then_some((content >> NUMBER_BITS) as u64)
    }

    pub(crate) fn is_ours(&self, key: u128) -> bool {
        self.open(key).is_some()
    }

    /// What nobody else can write beside a key.
    pub(crate) fn seal(&self, key: u128, is_inside_replica: bool, scope: &str) -> u64 {
        let mut bytes = [0; SEALED_AT_ONCE_BYTES];
        let len = size_of::<u128>() + 1 + scope.len();
        if len <= bytes.len() {
            bytes[..16].copy_from_slice(&key.to_le_bytes());
            bytes[16] = u8::from(is_inside_replica);
            bytes[17..len].copy_from_slice(scope.as_bytes());
            return self.seals.hash(&bytes[..len]);
        }
        let mut hasher = self.seals;
        hasher.write(&key.to_le_bytes());
        hasher.write_u8(u8::from(is_inside_replica));
        hasher.write(scope.as_bytes());
        hasher.finish()
    }

    /// What stands for a credential in memory. It means nothing to another process.
    pub(crate) fn credential(&self, credential: &[u8]) -> u128 {
        self.fingerprint(Of::Credential, 0, credential)
    }

    /// What stands for whoever is counted by these bytes.
    pub(crate) fn caller(&self, bytes: &[u8]) -> u64 {
        self.fingerprint(Of::Caller, 0, bytes) as u64
    }

    /// What nobody else has.
    pub(crate) fn attempt(&self) -> u128 {
        self.fingerprint(Of::Attempt, self.next_number().0, &[])
    }

    fn fingerprint(&self, of: Of, number: u64, bytes: &[u8]) -> u128 {
        let mut hasher = self.fingerprints;
        hasher.write_u64((of as u64) << 56 | number);
        hasher.write(bytes);
        hasher.finish128().as_u128()
    }

    fn mac(&self, content: u128) -> u64 {
        self.mac.hash(&content.to_le_bytes()) & MAC_MASK
    }

    /// 80 bits that nobody can tell without the secret.
    fn mask(&self, mac: u64) -> u128 {
        self.mask.hash(&mac.to_le_bytes()).as_u128() >> MAC_BITS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn maker() -> KeyMaker {
        KeyMaker::new(&[1; 16], &[2; 16])
    }

    fn mint(maker: &KeyMaker, scope: &str) -> (u64, u128) {
        let number = maker.next_number();
        let generation = maker.generation(number, false, scope);
        (generation, maker.mint(generation, number))
    }

    #[test]
    fn recognises_its_own_keys_only() {
        let maker = maker();
        let after_restart = KeyMaker::new(&[1; 16], &[3; 16]);
        let stranger = KeyMaker::new(&[4; 16], &[2; 16]);
        let (generation, key) = mint(&maker, "B: site2");
        let (again, other) = mint(&maker, "B: site2");
        assert_eq!(generation, again);
        assert_ne!(key, other);
        assert_eq!(maker.open(key), Some(generation));
        assert_eq!(after_restart.open(key), Some(generation));
        assert_eq!(stranger.open(key), None);
        assert_ne!(mint(&after_restart, "B: site2").0, generation);
    }

    #[test]
    fn generations_are_of_one_scope_and_one_era() {
        let maker = maker();
        let number = maker.next_number();
        let next_era = Number(number.0 + (1 << NUMBER_BITS));
        let generations = [
            maker.generation(number, false, "B: site2"),
            maker.generation(number, true, "B: site2"),
            maker.generation(number, false, "B: site3"),
            maker.generation(next_era, false, "B: site2"),
        ];
        assert_eq!(
            generations.iter().collect::<HashSet<_>>().len(),
            generations.len()
        );
        assert!(
            generations
                .iter()
                .all(|generation| generation >> GENERATION_BITS == 0)
        );
    }

    /// A tracing system that gets both must not take two requests for one, nor see that they are related.
    #[test]
    fn keys_of_one_scope_do_not_look_alike() {
        let maker = maker();
        let keys: Vec<u128> = (0..10_000).map(|_| mint(&maker, "B: site2").1).collect();
        let spans: HashSet<u64> = keys.iter().map(|key| (key >> 64) as u64 | 1).collect();
        assert_eq!(spans.len(), keys.len());
        for bit in 0..128 {
            let ones = keys.iter().filter(|key| *key >> bit & 1 == 1).count();
            assert!((4700..5300).contains(&ones), "bit {bit}: {ones}");
        }
        let changed: u32 = keys.windows(2).map(|two| (two[0] ^ two[1]).count_ones()).sum();
        let mean = f64::from(changed) / (keys.len() - 1) as f64;
        assert!((63.0..65.0).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn what_was_minted_is_opened_again(generation in 0..1_u64 << GENERATION_BITS, number: u64) {
            let maker = maker();
            prop_assert_eq!(maker.open(maker.mint(generation, Number(number))), Some(generation));
        }

        #[test]
        fn nothing_else_is(key: u128) {
            prop_assert_eq!(maker().open(key), None);
        }

        #[test]
        fn a_changed_key_is_none(generation in 0..1_u64 << GENERATION_BITS, number: u64, change in 1_u128..) {
            let maker = maker();
            let key = maker.mint(generation, Number(number));
            prop_assert_eq!(maker.open(key ^ change), None);
            for bit in 0..128 {
                prop_assert_eq!(maker.open(key ^ 1 << bit), None);
            }
        }
    }

    #[test]
    fn an_era_is_of_one_process() {
        let (maker, after_restart) = (maker(), KeyMaker::new(&[1; 16], &[3; 16]));
        let number = maker.next_number();
        let next_era = Number(number.0 + (1 << NUMBER_BITS));
        assert_eq!(maker.era(number), maker.era(maker.next_number()));
        assert_ne!(maker.era(number), maker.era(next_era));
        assert_ne!(maker.era(number), after_restart.era(number));
    }

    #[test]
    fn a_seal_is_of_its_bytes_alone() {
        let maker = maker();
        let mut seals = HashSet::new();
        for len in 0..400 {
            let scope = "s".repeat(len);
            let mut hasher = maker.seals;
            hasher.write(&7_u128.to_le_bytes());
            hasher.write_u8(1);
            hasher.write(scope.as_bytes());
            assert_eq!(maker.seal(7, true, &scope), hasher.finish(), "{len}");
            seals.insert(maker.seal(7, true, &scope));
        }
        assert_eq!(seals.len(), 400);
    }

    #[test]
    fn a_fingerprint_is_of_one_process_and_one_credential() {
        let maker = maker();
        let after_restart = KeyMaker::new(&[1; 16], &[3; 16]);
        let token = maker.credential(b"token");
        assert_eq!(token, maker.credential(b"token"));
        assert_ne!(token, maker.credential(b"token2"));
        assert_ne!(token, after_restart.credential(b"token"));
        assert_ne!(maker.attempt(), maker.attempt());
    }
}
