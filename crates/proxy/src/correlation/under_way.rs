//! What later calls of a workflow reached, for the receipt of the request that began it.
//!
//! It lasts as long as that request does: what comes later is told nobody.

use std::sync::Mutex;

use cheops_types::Visit;

use super::lock;

/// Steps of one workflow that its receipt can tell.
const STEPS_MAX: usize = 32;
const SHARDS: usize = 256;

/// The requests under way that began a workflow. A shard has a few of them at most.
pub(super) struct UnderWay([Mutex<Shard>; SHARDS]);

type Shard = Vec<(u128, Vec<Visit>)>;

impl Default for UnderWay {
    fn default() -> Self {
        Self([const { Mutex::new(Vec::new()) }; SHARDS])
    }
}

impl UnderWay {
    pub(super) fn begin(&self, key: u128) {
        lock(self.shard(key)).push((key, Vec::new()));
    }

    /// Notes sites that a call of the workflow reached.
    pub(super) fn note(&self, key: u128, visits: impl IntoIterator<Item = Visit>) {
        let mut shard = lock(self.shard(key));
        let Some((_, steps)) = shard.iter_mut().find(|(other, _)| *other == key) else {
            return;
        };
        for visit in visits {
            // Beyond that only services that were not called before.
            if steps.len() < STEPS_MAX || !steps.iter().any(|step| step.service == visit.service) {
                steps.push(visit);
            }
        }
    }

    /// The request is answered.
    pub(super) fn end(&self, key: u128) -> Vec<Visit> {
        let mut shard = lock(self.shard(key));
        let at = shard.iter().position(|(other, _)| *other == key);
        at.map_or_else(Vec::new, |at| shard.swap_remove(at).1)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| lock(shard).len()).sum()
    }

    fn shard(&self, key: u128) -> &Mutex<Shard> {
        &self.0[key as usize % SHARDS]
    }
}
