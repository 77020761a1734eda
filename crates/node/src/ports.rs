//! What replication needs of its surroundings.

use std::{future::Future, pin::Pin, sync::Arc};

use cheops_glue::Profile;
use cheops_mesh::Identity;
use cheops_net::Body;
use cheops_types::{Limits, Outcome, Problem, ServiceName, SiteName, Slot};
use http::{Request, Response};

/// An answer that comes later, on the control runtime.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// No answer; `outcome` says whether the request may have executed.
#[derive(Debug)]
pub struct Failed {
    pub outcome: Outcome,
    /// The connection ended, instead of being silent.
    pub is_broken: bool,
    pub problem: Problem,
}

/// The services of this site.
pub trait Application {
    /// Sends one request in origin form. `scope` is what the service's own calls are under: inside a
    /// replica's execution `&` means this site if it is listed, else the nearest one that is.
    fn call<'a>(
        &'a self,
        service: &'a ServiceName,
        request: Request<Body>,
        scope: &'a str,
    ) -> Later<'a, Result<Response<Body>, Failed>>;
}

/// The agents of the other sites.
pub trait Peers {
    /// Sends one request to a site's peer port. A long body or answer takes a connection of its own kind.
    fn ask<'a>(
        &'a self,
        site: &'a SiteName,
        request: Request<Body>,
        is_long: bool,
    ) -> Later<'a, Result<Response<Body>, Failed>>;

    /// Whether the site answers heartbeats.
    fn is_up(&self, site: &SiteName) -> bool;
}

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
