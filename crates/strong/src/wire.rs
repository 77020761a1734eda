//! The way to other sites.

use bytes::Bytes;
use cheops_types::SiteName;
use futures_util::future::LocalBoxFuture;

/// Why a request got no answer. Whether it was received is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("site `{site}` did not answer: {reason}")]
pub struct Unreached {
    pub site: SiteName,
    pub reason: String,
}

/// Carries requests to other sites, over links that certify who speaks.
///
/// The other side hands the body to [`Groups::receive`](crate::Groups::receive) with the name of this
/// site, and sends back what it returns. Requests may be lost, be late and overtake each other.
pub trait Wire {
    fn send<'a>(&'a self, to: &'a SiteName, body: Bytes) -> LocalBoxFuture<'a, Result<Bytes, Unreached>>;

    /// What the failure detector thinks. A hint: nothing is wrong when it is.
    fn is_up(&self, site: &SiteName) -> bool;

    /// The incarnation of a site's store, if it ever told. Needed of every founder when a group is founded.
    fn incarnation(&self, site: &SiteName) -> Option<u64>;
}
