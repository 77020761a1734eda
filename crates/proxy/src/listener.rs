//! What a listener is for.

use cheops_types::ServiceName;

/// Who a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Users: only the scope header counts.
    Public,
    /// The other services of this site: correlation applies.
    Internal,
    /// One address for both: correlation applies to keys minted here.
    Shared,
    /// Other agents.
    Peer,
}

/// What a listener is for.
#[derive(Debug, Clone)]
pub struct Tag {
    pub role: Role,
    /// The service behind a client port; none on the peer port.
    pub service: Option<ServiceName>,
}
