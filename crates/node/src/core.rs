//! What the parts of replication share.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use cheops_net::Offload;
use cheops_plan::Presence;
use cheops_replica::MetaId;
use cheops_store::{SiteKey, Spool, Store};
use cheops_types::SiteName;

use crate::{
    asks::Asks,
    calls::Calls,
    commit_times::CommitTimes,
    comparisons::Comparisons,
    finished::Finished,
    group_asks::{GroupAsks, OwnIntents},
    inbox::EngineHandle,
    life::{Life, Lives},
    missed::Missed,
    spooled::Spooled,
    surroundings::Surroundings,
    verifications::Verifications,
    waiting::Waiting,
};

/// One site's replication: where it is kept, who waits, and the way to the engine.
pub(crate) struct Core {
    pub(crate) site: SiteName,
    pub(crate) store: Store,
    pub(crate) spool: Spool,
    pub(crate) key: SiteKey,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    pub(crate) presence: Arc<Presence>,
    pub(crate) engine: EngineHandle,
    pub(crate) waiting: Waiting,
    pub(crate) finished: Finished,
    pub(crate) spooled: Spooled,
    pub(crate) asks: Asks,
    pub(crate) groups: GroupAsks,
    pub(crate) own_intents: OwnIntents,
    pub(crate) lives: Lives,
    pub(crate) calls: Calls,
    pub(crate) commit_times: CommitTimes,
    pub(crate) callers: Verifications,
    pub(crate) comparisons: Comparisons,
    pub(crate) missed: Missed,
    pub(crate) life: Life,
    /// How many sets were fenced off since the start.
    pub(crate) fenced: AtomicU64,
    /// Reads what long bodies mean; the cores of the callers have others to serve.
    pub(crate) offload: Offload,
}

impl Core {
    /// A message about a set does not get to a site.
    pub(crate) fn note_missed(&self, to: &SiteName, set: MetaId) {
        let is_known = || self.surroundings.sites().contains(to);
        self.missed.note(to, set, is_known);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}
