//! Who waits until this site has executed what was decided about a strong set.

use cheops_replica::MetaId;
use cheops_store::Error;
use tokio::sync::oneshot;

use super::Engine;
use crate::rows;

/// Looked at after each batch; those that wait are few, because each is somebody's read.
#[derive(Debug, Default)]
pub(super) struct Watches(Vec<(MetaId, oneshot::Sender<()>)>);

impl Watches {
    pub(super) fn push(&mut self, set: MetaId, done: oneshot::Sender<()>) {
        self.0.push((set, done));
    }
}

impl Engine {
    pub(super) fn tell_watches(&mut self) {
        for (set, done) in std::mem::take(&mut self.watches.0) {
            if done.is_closed() {
                continue;
            }
            match self.has_caught_up(&set) {
                Ok(true) => drop(done.send(())),
                Ok(false) => self.watches.push(set, done),
                Err(error) => tracing::error!(%error, %set, "a replica set cannot be read"),
            }
        }
    }

    /// A set that is not here has nothing to catch up with.
    fn has_caught_up(&self, meta: &MetaId) -> Result<bool, Error> {
        if let Some(held) = self.cache.get(meta) {
            return Ok(held.kept.set.has_caught_up());
        }
        let kept = rows::kept(&self.core.store.read()?, meta)?;
        Ok(kept.is_none_or(|kept| kept.set.has_caught_up()))
    }
}
