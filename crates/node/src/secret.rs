//! Callers' credentials: headers, sealed with the site's key while they wait.

use std::io;

use bytes::Bytes;
use cheops_replica::Secret;
use cheops_store::{SealError, Sealed, SiteKey};

use crate::ports::Surroundings;

/// Headers that only this process sees in clear.
pub(crate) type Headers = Vec<(String, Bytes)>;

/// Where sealed credentials belong: they open nowhere else.
const PLACE: &[u8] = b"credential";

/// Seals a credential.
pub(crate) fn seal(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    headers: &[(String, Bytes)],
) -> Result<Secret, SealError> {
    seal_clear(key, surroundings, &encode(headers))
}

/// The same for what [`open_clear`] gave at another site.
pub(crate) fn seal_clear(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    clear: &[u8],
) -> Result<Secret, SealError> {
    let entropy = |bytes: &mut [u8]| -> io::Result<()> {
        surroundings.fill(bytes);
        Ok(())
    };
    Ok(Secret(key.seal(PLACE, clear, &entropy)?.into_bytes()))
}

/// The clear form, for the site that the operation is sent to and for nothing else.
pub(crate) fn open_clear(key: &SiteKey, secret: &Secret) -> Result<Vec<u8>, SealError> {
    key.open_sealed(PLACE, &Sealed::from_bytes(secret.0.clone()))
}

pub(crate) fn open(key: &SiteKey, secret: &Secret) -> Result<Headers, SealError> {
    decode(&open_clear(key, secret)?).ok_or(SealError::Damaged)
}

fn encode(headers: &[(String, Bytes)]) -> Vec<u8> {
    let pairs: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), &value[..]))
        .collect();
    // Text and bytes have no shape that could not be written.
    rmp_serde::to_vec(&pairs).unwrap_or_default()
}

fn decode(clear: &[u8]) -> Option<Headers> {
    let pairs: Vec<(String, Vec<u8>)> = rmp_serde::from_slice(clear).ok()?;
    Some(
        pairs
            .into_iter()
            .map(|(name, value)| (name, value.into()))
            .collect(),
    )
}
