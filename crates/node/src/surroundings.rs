//! What replication needs of the agent: its configuration, the clock and randomness.

use std::sync::Arc;

use cheops_glue::Profile;
use cheops_mesh::Identity;
use cheops_types::{Limits, ServiceName, SiteName, Slot};

/// What this site may use of a service, whom it believes there, and whether others may use it.
#[derive(Clone)]
pub struct Access {
    /// Whether other sites may begin replica sets of it here.
    pub is_offered: bool,
    /// The site's own credential, as its file has it.
    pub credential: Option<Arc<[u8]>>,
    /// Privileged users and groups that other sites may vouch for.
    pub vouch: Arc<[String]>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            is_offered: true,
            credential: None,
            vouch: Arc::default(),
        }
    }
}

/// What is configured, and what only the agent may reach for.
pub trait Surroundings: Send + Sync {
    /// Milliseconds since 1970 on the wall clock.
    fn now_ms(&self) -> u64;

    /// Fills a buffer with randomness that nobody can guess.
    fn fill(&self, buffer: &mut [u8]);

    fn profile(&self) -> Arc<Profile>;

    fn limits(&self) -> Limits;

    /// All known sites, this one included, sorted by name.
    fn sites(&self) -> Vec<SiteName>;

    /// Which part of a range of integers this site draws meta-ids from. No other site has the same.
    fn slot(&self, here: &SiteName) -> Slot {
        Slot::by_name(here)
    }

    /// What this site may use of a service.
    fn access(&self, _service: &ServiceName) -> Access {
        Access::default()
    }

    /// Whether a site may vouch for the application's users here.
    fn believes(&self, _site: &SiteName) -> bool {
        true
    }

    /// Headers of callers that do not leave for a site, in lower case.
    fn withheld(&self, _site: &SiteName) -> Arc<[String]> {
        Arc::default()
    }

    /// Who this site is in the mesh; none while it is alone.
    fn identity(&self) -> Option<Arc<Identity>> {
        None
    }
}
