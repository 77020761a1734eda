//! Credentials: headers, sealed with the site's key while they wait.

use std::io;

use bytes::Bytes;
use cheops_replica::Secret;
use cheops_store::{SealError, Sealed, SiteKey};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::surroundings::Surroundings;

/// Headers that only this process sees in clear.
pub(crate) type Headers = Vec<(String, Bytes)>;

/// Where sealed credentials belong: they open nowhere else.
const PLACE: &[u8] = b"credential";

/// Stands among the headers of a credential that an operator brought. No header is called so.
const SUPPLIED: &str = ":supplied";

/// A credential in clear.
pub(crate) struct Opened {
    pub(crate) headers: HeaderMap,
    /// An operator brought it: it is meant to be used, whoever the caller was.
    pub(crate) is_supplied: bool,
}

/// Seals a caller's credential.
pub(crate) fn seal(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    headers: &HeaderMap,
) -> Result<Secret, SealError> {
    seal_clear(key, surroundings, &encode(pairs(headers)))
}

/// Seals a credential that an operator brought.
pub(crate) fn seal_supplied(
    key: &SiteKey,
    surroundings: &dyn Surroundings,
    headers: &HeaderMap,
) -> Result<Secret, SealError> {
    let mark = (SUPPLIED, &[][..]);
    seal_clear(key, surroundings, &encode(pairs(headers).chain([mark])))
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
    let pairs = headers.iter().map(|(name, value)| (name.as_str(), &value[..]));
    is_left.then(|| encode(pairs))
}

pub(crate) fn open(key: &SiteKey, secret: &Secret) -> Result<Opened, SealError> {
    let decoded = decode(&open_clear(key, secret)?).ok_or(SealError::Damaged)?;
    let is_supplied = decoded.iter().any(|(name, _)| name == SUPPLIED);
    // What no header can be is none, whoever wrote it.
    let headers = decoded.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::from_maybe_shared(Bytes::from(value)).ok()?;
        Some((HeaderName::try_from(name).ok()?, value))
    });
    Ok(Opened {
        headers: headers.collect(),
        is_supplied,
    })
}

/// Those that are meant, as a recorded request has them.
pub(crate) fn listed(headers: &HeaderMap, is_meant: impl Fn(&str) -> bool) -> Headers {
    let meant = pairs(headers).filter(|(name, _)| is_meant(name));
    meant
        .map(|(name, value)| (name.to_owned(), Bytes::copy_from_slice(value)))
        .collect()
}

/// Headers as they are sealed.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
}

fn encode<'h>(headers: impl Iterator<Item = (&'h str, &'h [u8])>) -> Vec<u8> {
    let pairs: Vec<(&str, &[u8])> = headers.collect();
    // Text and bytes have no shape that could not be written.
    rmp_serde::to_vec(&pairs).unwrap_or_default()
}

fn decode(clear: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    rmp_serde::from_slice(clear).ok()
}
