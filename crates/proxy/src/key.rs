//! Correlation keys that authenticate themselves: 64 bits of nonce, 64 bits of MAC.

use std::{
    hash::Hasher as _,
    sync::atomic::{AtomicU64, Ordering},
};

use siphasher::{
    sip::SipHasher24,
    sip128::{self, Hasher128 as _},
};

/// Mints and recognises keys. The MAC secret outlives the process, so that a key of before a restart
/// is still recognised as one of ours; the nonce secret must be new at each start, so that no key is
/// minted twice.
pub struct KeyMaker {
    mac: SipHasher24,
    nonces: SipHasher24,
    fingerprints: sip128::SipHasher24,
    counter: AtomicU64,
}

impl KeyMaker {
    pub fn new(mac_secret: &[u8; 16], nonce_secret: &[u8; 16]) -> Self {
        Self {
            mac: SipHasher24::new_with_key(mac_secret),
            nonces: SipHasher24::new_with_key(nonce_secret),
            fingerprints: sip128::SipHasher24::new_with_key(nonce_secret),
            counter: AtomicU64::new(0),
        }
    }

    pub(crate) fn mint(&self) -> u128 {
        let nonce = keyed(&self.nonces, self.counter.fetch_add(1, Ordering::Relaxed));
        u128::from(nonce) << 64 | u128::from(keyed(&self.mac, nonce))
    }

    /// Whether a key was minted here.
    pub(crate) fn is_ours(&self, key: u128) -> bool {
        let nonce = (key >> 64) as u64;
        keyed(&self.mac, nonce) == key as u64
    }

    /// What stands for a credential in memory. It means nothing to another process.
    pub(crate) fn fingerprint(&self, credential: &[u8]) -> u128 {
        let mut hasher = self.fingerprints;
        hasher.write(credential);
        hasher.finish128().as_u128()
    }
}

fn keyed(hasher: &SipHasher24, value: u64) -> u64 {
    let mut hasher = *hasher;
    hasher.write_u64(value);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_its_own_keys_only() {
        let maker = KeyMaker::new(&[1; 16], &[2; 16]);
        let after_restart = KeyMaker::new(&[1; 16], &[3; 16]);
        let stranger = KeyMaker::new(&[4; 16], &[2; 16]);
        let key = maker.mint();
        assert_ne!(key, maker.mint());
        assert_ne!(key, after_restart.mint());
        assert!(maker.is_ours(key) && after_restart.is_ours(key) && !stranger.is_ours(key));
        assert!((0..128).all(|bit| !maker.is_ours(key ^ (1 << bit))));
    }

    #[test]
    fn a_fingerprint_is_of_one_process_and_one_credential() {
        let maker = KeyMaker::new(&[1; 16], &[2; 16]);
        let after_restart = KeyMaker::new(&[1; 16], &[3; 16]);
        let token = maker.fingerprint(b"token");
        assert_eq!(token, maker.fingerprint(b"token"));
        assert_ne!(token, maker.fingerprint(b"token2"));
        assert_ne!(token, after_restart.fingerprint(b"token"));
    }
}
