//! What clients and peers write in headers, as functions from bytes. For the fuzzer (`crates/fuzzing`) only.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{attempt::Places, prefer as preference};

/// Reads a `Prefer`; whether anything in it is understood.
pub fn prefer(value: &[u8]) -> bool {
    let Some(headers) = header("prefer", value) else {
        return false;
    };
    let (weights, _) = preference::span(&headers);
    preference::read(&headers) != cheops_ports::Prefer::default() || !weights.is_empty()
}

/// Reads which items of a list are replicas; whether it can be read. Panics if it is not the same when written and
/// read again, or tells of more items than there are.
pub fn replicas(value: &[u8]) -> bool {
    let read = |mut headers: HeaderMap| Places::take(&mut headers);
    let Some(places) = header(cheops_types::headers::PEER_REPLICAS, value).and_then(read) else {
        return false;
    };
    let items = places.of_list(10);
    assert!(items.inspect(|(place, _)| assert!(*place < 10)).count() <= 10);
    let mut headers = HeaderMap::new();
    places.put(&mut headers);
    // What is too long to be told is not told.
    assert!(headers.is_empty() || read(headers).as_ref() == Some(&places));
    true
}

fn header(name: &'static str, value: &[u8]) -> Option<HeaderMap> {
    let value = HeaderValue::from_bytes(value).ok()?;
    Some([(HeaderName::from_static(name), value)].into_iter().collect())
}
