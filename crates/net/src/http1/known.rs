//! The fields of the head before, on the same connection.
//!
//! Who sends one request after the other repeats most of their fields byte for byte, and so does a service with its answers. What
//! was made of a field then is handed out again: nothing has to be looked at but whether the bytes are the same. Where the fields
//! stand is found in each head anew, so that what is a head at all is decided without this.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::head::HeadError;

/// So many fields of a head are remembered, each up to so many bytes.
const PLACES_MAX: usize = 24;
const FIELD_MAX_BYTES: usize = 256;
/// A place whose field is another one each time, a request's id say, is given up but for every so many heads: to remember
/// costs more than to read.
const MISSES_MAX: u8 = 4;
const RETRY_EVERY: u8 = 64;

#[derive(Debug, Default)]
pub(crate) struct KnownFields(Vec<Place>);

/// What stood at one place of the head before.
#[derive(Debug)]
struct Place {
    /// From the name's first byte to the value's last.
    bytes: Box<[u8]>,
    name: HeaderName,
    value: HeaderValue,
    misses: u8,
    /// Whether this is what stood there last.
    is_last: bool,
}

impl KnownFields {
    /// The field at a place where it is known to be that of the head before.
    pub(super) fn again(&self, place: usize) -> Option<(HeaderName, HeaderValue)> {
        let known = self.0.get(place).filter(|known| known.is_last)?;
        Some((known.name.clone(), known.value.clone()))
    }

    /// The field at a place of `head`: `name` and `value` are where its parts stand in it.
    pub(super) fn field(
        &mut self,
        place: usize,
        head: &Bytes,
        name: (usize, usize),
        value: (usize, usize),
    ) -> Result<(HeaderName, HeaderValue), HeadError> {
        let bytes = &head[name.0..value.1];
        let Some(known) = self.0.get_mut(place) else {
            let (name, value) = read(head, name, value)?;
            if self.0.len() == place && place < PLACES_MAX {
                self.0.push(Place::new(bytes, &name, &value, 0));
            }
            return Ok((name, value));
        };
        if *known.bytes == *bytes {
            known.misses = 0;
            known.is_last = true;
            return Ok((known.name.clone(), known.value.clone()));
        }
        let (name, value) = read(head, name, value)?;
        let misses = known.misses + 1;
        known.misses = misses % RETRY_EVERY;
        known.is_last = false;
        if misses <= MISSES_MAX || misses == RETRY_EVERY {
            *known = Place::new(bytes, &name, &value, misses.min(MISSES_MAX));
        }
        Ok((name, value))
    }
}

impl Place {
    /// A copy: a part of the head would keep all that was read with it in memory.
    fn new(bytes: &[u8], name: &HeaderName, value: &HeaderValue, misses: u8) -> Self {
        let copied = HeaderValue::from_bytes(value.as_bytes()).ok();
        let copied = copied.filter(|_| bytes.len() <= FIELD_MAX_BYTES);
        Self {
            is_last: copied.is_some(),
            // Nothing is no field: it stands for one that is not remembered.
            bytes: copied.as_ref().map_or_else(Box::default, |_| bytes.into()),
            name: name.clone(),
            value: copied.unwrap_or(HeaderValue::from_static("")),
            misses,
        }
    }
}

fn read(
    head: &Bytes,
    name: (usize, usize),
    value: (usize, usize),
) -> Result<(HeaderName, HeaderValue), HeadError> {
    let name =
        HeaderName::from_bytes(&head[name.0..name.1]).map_err(|_| HeadError::Malformed("a field's name"))?;
    let value = HeaderValue::from_maybe_shared(head.slice(value.0..value.1))
        .map_err(|_| HeadError::Malformed("a field's value"))?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(known: &mut KnownFields, place: usize, name: &str, value: &str) -> (HeaderName, HeaderValue) {
        let head = Bytes::from(format!("{name}: {value}\r\n"));
        let begin = name.len() + 2;
        let field = known.field(place, &head, (0, name.len()), (begin, begin + value.len()));
        field.unwrap()
    }

    #[test]
    fn a_field_is_the_same_remembered_or_not() {
        let mut known = KnownFields::default();
        for number in 0..1000 {
            let changing = format!("{number}");
            let rarely = format!("{}", number / 100);
            for (place, (name, value)) in [
                ("Host", "a"),
                ("X-Id", changing.as_str()),
                ("x-rarely", &rarely),
                ("accept", ""),
                ("x-long", &"x".repeat(1000)),
            ]
            .into_iter()
            .enumerate()
            {
                let read = field(&mut known, place, name, value);
                assert_eq!(read.0.as_str(), name.to_ascii_lowercase());
                assert_eq!(read.1, value);
            }
        }
        assert!(known.0[4].bytes.is_empty(), "a long one is not remembered");
    }

    #[test]
    fn the_same_bytes_with_another_end_of_the_name_are_not_the_same() {
        let mut known = KnownFields::default();
        let head = Bytes::from_static(b"a:b:c");
        let (name, value) = known.field(0, &head, (0, 1), (2, 5)).unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("a", &b"b:c"[..]));
        assert_eq!(known.field(0, &head, (0, 1), (2, 5)).unwrap().1, "b:c");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = KnownFields::default();
        for place in 0..100 {
            field(&mut known, place, "a", &"x".repeat(FIELD_MAX_BYTES - 3));
        }
        assert_eq!(known.0.len(), PLACES_MAX);
        let mut writes = 0;
        for number in 0..=255 {
            field(&mut known, 0, "a", &format!("{number}"));
            writes += usize::from(known.0[0].value == format!("{number}"));
        }
        assert_eq!(writes, 8, "a place that always changes is mostly left alone");
    }
}
