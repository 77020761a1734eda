//! What is known of credentials for a while.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cheops_types::{Caller, ServiceName};
use ring::hmac;

use crate::surroundings::Surroundings;

/// How long a verified credential is believed without asking. One that was taken back counts no longer than
/// that here; the application checks it all the same.
const BELIEVED: Duration = Duration::from_secs(10);

const ENTRIES_MAX: usize = 4096;

/// Who credentials belong to, by a hash that only this process can make.
#[derive(Default)]
pub(crate) struct Verifications {
    key: OnceLock<hmac::Key>,
    known: Mutex<HashMap<Fingerprint, (Instant, Caller)>>,
    /// Writes that went without a verified caller, although the glue says how one is verified.
    unverified: AtomicU64,
}

/// Stands for a credential of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

impl fmt::Debug for Verifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifications(..)")
    }
}

impl Verifications {
    pub(crate) fn fingerprint(
        &self,
        surroundings: &dyn Surroundings,
        service: &ServiceName,
        credential: &str,
    ) -> Fingerprint {
        let key = self.key.get_or_init(|| {
            let mut secret = [0; 32];
            surroundings.fill(&mut secret);
            hmac::Key::new(hmac::HMAC_SHA256, &secret)
        });
        let mut context = hmac::Context::with_key(key);
        context.update(service.as_bytes());
        // No name has it, so that no two pairs read the same.
        context.update(&[0]);
        context.update(credential.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(context.sign().as_ref());
        Fingerprint(bytes)
    }

    pub(crate) fn get(&self, fingerprint: &Fingerprint) -> Option<Caller> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, caller) = known.get(fingerprint)?;
        (since.elapsed() < BELIEVED).then(|| caller.clone())
    }

    pub(crate) fn put(&self, fingerprint: Fingerprint, caller: Caller) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ENTRIES_MAX {
            known.retain(|_, (since, _)| since.elapsed() < BELIEVED);
        }
        if known.len() < ENTRIES_MAX {
            known.insert(fingerprint, (Instant::now(), caller));
        }
    }

    pub(crate) fn count_unverified(&self) {
        self.unverified.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Relaxed)
    }
}
