//! What sites tell each other, as bytes: encoded and signed on the way out, decoded and verified on the way
//! in.
//!
//! Credentials leave in clear, inside the mutual TLS of the peer link, for members of the set only, and are
//! sealed with the receiver's own key before anything else sees them.

mod batch;
pub(crate) mod fuzzing;
mod incoming;
mod outbox;
mod outgoing;
mod parts;
#[cfg(test)]
mod tests;

use cheops_types::headers;

use crate::asks::MESSAGES;
pub(crate) use incoming::receive;
pub(crate) use outbox::Outboxes;
pub(crate) use outgoing::sign_all;

/// Where messages go, at another site's peer port.
fn messages_path() -> String {
    format!("{}{MESSAGES}", headers::PEER_REPLICATION_PATH)
}
