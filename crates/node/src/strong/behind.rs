//! Groups of which outcomes were decided that this site was never told.
//!
//! ```text
//! rome is away while the others decide 2,000 writes; their log keeps the last 1,000
//! rome comes back, and gets a snapshot of the log: which intents are open, not what was decided
//! the engine of rome is sent what it lacks by the other members, in its own time
//! a read through rome waits for that, and so does a write that rome is to decide
//! ```
//!
//! Which set lacks what, rome cannot tell by itself. So it asks the other members about each set that somebody wants.

use std::{cell::RefCell, collections::HashSet, sync::Arc, time::Duration};

use cheops_replica::{MetaId, Vector};
use cheops_strong::GroupId;
use cheops_types::SiteName;
use tokio::time::sleep;

use super::disk;
use crate::{core::Core, rows};

const AGAIN: Duration = Duration::from_millis(50);

pub(super) struct Behind {
    core: Arc<Core>,
    groups: RefCell<HashSet<GroupId>>,
}

impl Behind {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self {
            groups: RefCell::new(disk::skipped(core)),
            core: Arc::clone(core),
        }
    }

    /// Notes for good that this site was not told all.
    pub(super) async fn note(&self, group: &GroupId) {
        disk::skip(&self.core, group).await;
        self.groups.borrow_mut().insert(*group);
    }

    /// Waits until this site has what the other members have of a set: a majority of them, and all that answer.
    pub(super) async fn catch_up(&self, group: &GroupId, set: &str) {
        if !self.groups.borrow().contains(group) {
            return;
        }
        if set.is_empty() {
            // What it is, nobody here knows, and there may be something: this site cannot tell.
            return std::future::pending().await;
        }
        let meta = MetaId::new(set);
        while !self.has_caught_up(group, &meta).await {
            sleep(AGAIN).await;
        }
    }

    async fn has_caught_up(&self, group: &GroupId, set: &MetaId) -> bool {
        let founders = self.founders(group);
        let mut answered = 1;
        for site in founders.iter().filter(|site| **site != self.core.site) {
            let Ok(theirs) = self.core.asks.held_at(site, set).await else {
                continue;
            };
            if !self.held(set).is_some_and(|held| held.covers(&theirs)) {
                return false;
            }
            answered += 1;
        }
        answered * 2 > founders.len()
    }

    fn founders(&self, group: &GroupId) -> Vec<SiteName> {
        let foundings = disk::foundings(&self.core).unwrap_or_default().into_iter();
        let mut own = foundings.filter(|founding| GroupId::of(founding) == *group);
        own.next()
            .map(|founding| founding.founders.into_iter().collect())
            .unwrap_or_default()
    }

    /// What this site holds of a set; none where the store cannot be read.
    fn held(&self, set: &MetaId) -> Option<Vector> {
        let kept = rows::kept(&self.core.store.read().ok()?, set).ok()?;
        Some(kept.map_or_else(Vector::new, |kept| kept.set.held().clone()))
    }
}
