//! A service of this site, and what a request for it says of its caller.

pub(crate) mod identity;
mod via;

use std::rc::Rc;

use cheops_net::{Trailers, Upstream};
use cheops_types::ServiceName;
use http::HeaderMap;

use crate::correlation::ReadScopes;
use identity::Identity;
pub(crate) use via::Via;

/// A service as one core sees it.
pub(crate) struct Service {
    pub(crate) name: ServiceName,
    pub(crate) upstream: Rc<Upstream>,
    /// The same with this agent's certificate, by which the application believes it about callers.
    pub(crate) vouched: Option<Rc<Upstream>>,
    pub(crate) identity: Option<Identity>,
    /// Whether other sites may use it.
    pub(crate) is_offered: bool,
    /// What callers may say behind a request's body.
    pub(crate) trailers: Rc<Trailers>,
    /// Callers with privileges that a peer may speak for.
    pub(crate) vouch: Vec<String>,
    pub(crate) via: Via,
    /// What callers of this service have asked for.
    pub(crate) scopes: ReadScopes,
}

impl Service {
    /// The way to the application: with this agent's certificate for a request that has an identity, and
    /// for no other. Where there is no such way, the identity does not go along.
    pub(crate) fn upstream_for(&self, headers: &mut HeaderMap) -> &Upstream {
        let Some(identity) = self.identity.as_ref().filter(|identity| identity.is_in(headers)) else {
            return &self.upstream;
        };
        if let Some(vouched) = &self.vouched {
            return vouched;
        }
        identity.strip(headers);
        &self.upstream
    }
}
