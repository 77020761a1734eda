//! Credentials: headers, sealed with the site's key while they wait.

use std::io;

use bytes::Bytes;
use cheops_replica::Secret;
use cheops_store::{SealError, Sealed, SiteKey};

use crate::ports::Surroundings;

/// Headers that only this process sees in clear.
pub(crate) type Headers = Vec<(String, Bytes)>;

/// Where sealed credentials belong: they open nowhere else.
const PLACE: &[u8] = b"credential";

/// Stands among the headers of a credential that an operator brought. No header is called so.
const SUPPLIED: &str = ":supplied";

/// A credential in clear.
pub(crate) struct Opened {
    pub(crate) headers: Headers,
    /// An operator brought it: it is meant to be used, whoever the caller was.
    pub(crate) is_supplied: bool,
}

/// Seals a caller's credential.
pub(crate) fn seal(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    headers: &[(String, Bytes)],
) -> Result<Secret, SealError> {
    seal_clear(key, surroundings, &encode(headers.iter()))
}

/// Seals a credential that an operator brought.
pub(crate) fn seal_supplied(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    headers: &[(String, Bytes)],
) -> Result<Secret, SealError> {
    let mark = (SUPPLIED.to_owned(), Bytes::new());
    seal_clear(key, surroundings, &encode(headers.iter().chain([&mark])))
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

/// A credential in clear without some headers, told in lower case; none where nothing is left of it.
pub(crate) fn without(clear: Vec<u8>, withheld: &[String]) -> Option<Vec<u8>> {
    if withheld.is_empty() {
        return Some(clear);
    }
    let mut headers = decode(&clear)?;
    headers.retain(|(name, _)| {
        !withheld
            .iter()
            .any(|withheld| name.eq_ignore_ascii_case(withheld))
    });
    let is_left = headers.iter().any(|(name, _)| name != SUPPLIED);
    is_left.then(|| encode(headers.iter()))
}

pub(crate) fn open(key: &SiteKey, secret: &Secret) -> Result<Opened, SealError> {
    let mut headers = decode(&open_clear(key, secret)?).ok_or(SealError::Damaged)?;
    let all = headers.len();
    headers.retain(|(name, _)| name != SUPPLIED);
    Ok(Opened {
        is_supplied: headers.len() < all,
        headers,
    })
}

fn encode<'h>(headers: impl Iterator<Item = &'h (String, Bytes)>) -> Vec<u8> {
    let pairs: Vec<(&str, &[u8])> = headers.map(|(name, value)| (name.as_str(), &value[..])).collect();
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
