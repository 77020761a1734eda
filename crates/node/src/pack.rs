//! Values as bytes, as sites exchange and sign them.

use serde::{Serialize, de::DeserializeOwned};

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
