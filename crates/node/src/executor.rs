//! The executing of operations at this site's application: what was recorded becomes a request, its answer an outcome.
//!
//! It knows neither the engine nor what kind of set an operation is of: it is given a set's record and an execution, and
//! says what came of it.

mod call;
mod divide;
mod execute;
mod ids;
mod lawful;
mod look;
mod read;
mod recast;
mod render;
mod speak;

use std::{rc::Rc, sync::Arc};

use cheops_ports::{Application, Peers};
use tokio::sync::Semaphore;

use crate::{core::Core, fetch::Fetcher};
pub(crate) use execute::{Broken, Executed};
pub(crate) use read::{Access, Replica};
pub(crate) use recast::Same;
pub(crate) use render::AppRequest;
use speak::OwnToken;

/// Sends requests to the services of this site.
///
/// A write that a caller waits for goes to the application at once. Of all other calls there are at most
/// `replay_inflight_max` under way, so that catching up after a cut does not take the application from its
/// users.
pub(crate) struct Executor {
    core: Arc<Core>,
    application: Rc<dyn Application>,
    pub(crate) fetcher: Fetcher,
    slots: Semaphore,
    own_token: OwnToken,
}

impl Executor {
    pub(crate) fn new(core: Arc<Core>, application: Rc<dyn Application>, peers: Rc<dyn Peers>) -> Self {
        let slots = Semaphore::new(core.surroundings.limits().replay_inflight_max.max(1));
        Self {
            fetcher: Fetcher::new(Arc::clone(&core), peers),
            core,
            application,
            slots,
            own_token: OwnToken::default(),
        }
    }

    /// Whether the application has enough to do on behalf of replication.
    pub(crate) fn is_busy(&self) -> bool {
        self.slots.available_permits() == 0
    }
}
