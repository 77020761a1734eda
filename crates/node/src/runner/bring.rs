//! Payloads are fetched when their operations arrive, so that a site that holds one can pass it on whole.

use std::{cell::RefCell, collections::HashSet, rc::Rc, time::Duration};

use cheops_replica::{Event, MetaId};
use cheops_store::{PayloadHash, PayloadRef};
use cheops_types::SiteName;
use tracing::debug;

use super::Reach;
use crate::rows;

/// Pause after a failed attempt; it doubles with each.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What is being brought here, each for the sets that asked for it.
#[derive(Default)]
pub(super) struct Bringing(RefCell<HashSet<(PayloadHash, MetaId)>>);

impl Reach {
    /// Gets a payload, again and again while an operation of the set lacks it, and tells the engine.
    pub(super) async fn bring(self: Rc<Self>, set: MetaId, payload: PayloadRef) {
        let key = (payload.hash, set.clone());
        if !self.bringing.0.borrow_mut().insert(key.clone()) {
            return;
        }
        let mut pause = RETRY_MIN;
        while let Some(sites) = self.lacking(&set, &payload) {
            match self.executor.fetcher.get(&payload, &sites).await {
                Ok(_kept) => {
                    let (hash, is_here) = (payload.hash.into(), true);
                    self.core.engine.result(&set, Event::Payload { hash, is_here });
                    break;
                }
                Err(error) => debug!(%set, %error, "a payload is not here yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
        self.bringing.0.borrow_mut().remove(&key);
    }

    /// The other members of a set that lacks a payload; none when it does not, or not any more.
    fn lacking(&self, meta: &MetaId, payload: &PayloadRef) -> Option<Vec<SiteName>> {
        let read = self.core.store.read().ok()?;
        let set = rows::set(&read, meta).ok()??;
        let lacks = rows::bare(&set).any(|lacking| lacking == *payload);
        let others = set.members().keys().filter(|site| **site != self.core.site);
        lacks.then(|| others.cloned().collect())
    }
}
