//! The fields of the head before, on the same connection.
//!
//! Who sends one request after the other repeats most of their fields byte for byte, and so does a service with its answers. What
//! was made of a field then is handed out again: nothing has to be looked at but whether the bytes are the same. Where the fields
//! stand is found in each head anew, so that what is a head at all is decided without this.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header::HOST};

use super::head::HeadError;

/// So many fields of a head are remembered, each up to so many bytes, and all of them up to so many.
const PLACES_MAX: usize = 24;
const FIELD_MAX_BYTES: usize = 256;
const ALL_MAX_BYTES: usize = 2048;
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
    bytes: Bytes,
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
            let field = read(head, name, value)?;
            if self.0.len() == place && place < PLACES_MAX {
                let room = self.room(place);
                self.0.push(Place::new(bytes, &field, room, 0));
            }
            return Ok(field);
        };
        if known.bytes == bytes {
            known.misses = 0;
            known.is_last = true;
            return Ok((known.name.clone(), known.value.clone()));
        }
        let field = read(head, name, value)?;
        let misses = known.misses + 1;
        known.misses = misses % RETRY_EVERY;
        known.is_last = false;
        if misses <= MISSES_MAX || misses == RETRY_EVERY {
            let room = self.room(place);
            self.0[place] = Place::new(bytes, &field, room, misses.min(MISSES_MAX));
        }
        Ok(field)
    }

    /// How long the field at a place may be to be remembered beside the others.
    fn room(&self, place: usize) -> usize {
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != place);
        let held: usize = others.map(|(_, other)| other.bytes.len()).sum();
        FIELD_MAX_BYTES.min(ALL_MAX_BYTES.saturating_sub(held))
    }
}

impl Place {
    fn new(bytes: &[u8], (name, value): &(HeaderName, HeaderValue), room: usize, misses: u8) -> Self {
        let mut place = Self {
            // Nothing is no field: it stands for one that is not remembered.
            bytes: Bytes::new(),
            name: HOST,
            value: HeaderValue::from_static(""),
            misses,
            is_last: false,
        };
        if bytes.len() <= room {
            // A copy: a part of the head would keep all that was read with it in memory.
            let copy = Bytes::copy_from_slice(bytes);
            let begin = bytes.len() - value.len();
            if let Ok(value) = HeaderValue::from_maybe_shared(copy.slice(begin..)) {
                (place.bytes, place.name, place.value) = (copy, name.clone(), value);
                place.is_last = true;
            }
        }
        place
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
        let bytes: usize = known.0.iter().map(|place| place.bytes.len()).sum();
        assert_eq!(bytes, ALL_MAX_BYTES);
        let mut writes = 0;
        for number in 0..=255 {
            field(&mut known, 0, "a", &format!("{number}"));
            writes += usize::from(known.0[0].value == format!("{number}"));
        }
        assert_eq!(writes, 8, "a place that always changes is mostly left alone");
    }
}
