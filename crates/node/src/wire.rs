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
use serde::{Serialize, de::DeserializeOwned};

pub(crate) use incoming::receive;
pub(crate) use outbox::Outboxes;

/// Where messages go, at another site's peer port.
fn messages_path() -> String {
    format!("{}{MESSAGES}", headers::PEER_REPLICATION_PATH)
}

const MESSAGES: &str = "messages";
const READ: &str = "read/";
const CHECK: &str = "check/";
pub(crate) const RANGES: &str = "ranges";
/// Whether a site remembers this one's store to be older than it is.
pub(crate) const HELLO: &str = "hello";

/// How deep a message of a peer may be nested: far more than any is, and far less than a thread's stack holds.
const DEPTH_MAX: usize = 256;

/// MessagePack without names. The same value always gives the same bytes.
pub(crate) fn pack<T: Serialize>(value: &T) -> Option<Vec<u8>> {
    rmp_serde::to_vec(value).ok()
}

/// Reads what [`pack`] wrote at another site, or anything else that it sent.
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
    reader.set_max_depth(DEPTH_MAX);
    T::deserialize(&mut reader)
}
