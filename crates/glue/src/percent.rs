//! Percent-encoding, as far as paths and query parameters need it.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// What cannot stand in a segment of a path.
const NOT_IN_SEGMENT: &AsciiSet = &RESERVED
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// The bytes that `text` stands for. A `%` that starts no escape stands for itself.
pub(crate) fn decode(text: &str) -> Cow<'_, [u8]> {
    decode_bytes(text.as_bytes())
}

pub(crate) fn decode_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    percent_decode(bytes).into()
}

/// The text that `text` stands for, or `text` itself where that would not be UTF-8.
pub(crate) fn decode_text(text: &str) -> Cow<'_, str> {
    match decode(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

pub(crate) fn encode_into(out: &mut String, text: &str) {
    out.extend(percent_encode(text.as_bytes(), RESERVED));
}

pub(crate) fn encode_segment_into(out: &mut String, text: &str) {
    encode_segment_bytes_into(out, text.as_bytes());
}

/// The same for what may not be text.
pub(crate) fn encode_segment_bytes_into(out: &mut String, segment: &[u8]) {
    // Where a segment of dots is not escaped it means another place.
    if matches!(segment, b"." | b"..") {
        out.push_str(&"%2E".repeat(segment.len()));
    } else {
        out.extend(percent_encode(segment, NOT_IN_SEGMENT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(*decode("a%2Fb%c3%a9"), *"a/bé".as_bytes());
        assert_eq!(*decode("100%"), *b"100%");
        assert_eq!(*decode("%zz%4"), *b"%zz%4");
        let mut out = String::new();
        encode_into(&mut out, "a b&c=é~");
        assert_eq!(out, "a%20b%26c%3D%C3%A9~");
        assert_eq!(*decode(&out), *"a b&c=é~".as_bytes());
    }

    #[test]
    fn segments() {
        for (text, expect) in [
            ("a:b@c,(d)", "a:b@c,(d)"),
            ("a/b?c#d%e", "a%2Fb%3Fc%23d%25e"),
            (".", "%2E"),
            ("..", "%2E%2E"),
            ("...", "..."),
        ] {
            let mut out = String::new();
            encode_segment_into(&mut out, text);
            assert_eq!(out, expect);
            assert_eq!(decode_text(&out), text);
        }
        assert_eq!(decode_text("%ff"), "%ff");
    }
}
