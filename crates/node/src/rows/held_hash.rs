//! What a site holds of a set, as a number.

use cheops_replica::{MetaId, Vector};
use ring::digest::{SHA256, digest};

use crate::pack::pack;

/// What a site holds of a set: equal where two sites hold the same.
pub(crate) fn held_hash(meta: &MetaId, held: &Vector) -> u128 {
    pack(&(meta, held)).map_or(0, |bytes| hash(&bytes))
}

/// Sixteen bytes of a hash.
pub(crate) fn hash(bytes: &[u8]) -> u128 {
    let digest = digest(&SHA256, bytes);
    let first = digest.as_ref().first_chunk().copied();
    u128::from_be_bytes(first.unwrap_or_default())
}
