//! What replication asks of the data plane.

use std::{future::Future, pin::Pin};

use cheops_net::Body;
use cheops_types::{Outcome, Problem, ServiceName, SiteName};
use http::{Request, Response};

/// An answer that comes later, on the control runtime.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A request that got no answer.
#[derive(Debug)]
pub struct NoAnswer {
    /// Whether the request may have executed.
    pub outcome: Outcome,
    /// The connection ended, instead of being silent.
    pub is_broken: bool,
    pub problem: Problem,
}

impl NoAnswer {
    pub fn not_executed(problem: Problem) -> Self {
        Self {
            outcome: Outcome::NotExecuted,
            is_broken: false,
            problem,
        }
    }
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
    ) -> Later<'a, Result<Response<Body>, NoAnswer>>;
}

/// The agents of the other sites.
pub trait Peers {
    /// Sends one request to a site's peer port. A long body or answer takes a connection of its own kind.
    fn ask<'a>(
        &'a self,
        site: &'a SiteName,
        request: Request<Body>,
        is_long: bool,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>>;

    /// Whether the site answers heartbeats.
    fn is_up(&self, site: &SiteName) -> bool;
}
