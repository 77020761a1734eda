//! Percent-encoding, as far as paths and query parameters need it.

use std::borrow::Cow;

/// The bytes that `text` stands for. A `%` that starts no escape stands for itself.
pub(crate) fn decode(text: &str) -> Cow<'_, [u8]> {
    decode_bytes(text.as_bytes())
}

pub(crate) fn decode_bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = (bytes[at] == b'%')
            .then(|| Some(digit(*bytes.get(at + 1)?)? << 4 | digit(*bytes.get(at + 2)?)?))
            .flatten();
        decoded.push(escape.unwrap_or(bytes[at]));
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(decoded)
}

/// The text that `text` stands for, or `text` itself where that would not be UTF-8.
pub(crate) fn decode_text(text: &str) -> Cow<'_, str> {
    match decode(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(text), Cow::Owned),
    }
}

/// Encodes everything but the unreserved characters of RFC 3986.
pub(crate) fn encode_into(out: &mut String, text: &str) {
    encode(out, text.as_bytes(), |_| false);
}

/// Encodes what cannot stand in a segment of a path.
pub(crate) fn encode_segment_into(out: &mut String, text: &str) {
    encode_segment_bytes_into(out, text.as_bytes());
}

/// The same for what may not be text.
pub(crate) fn encode_segment_bytes_into(out: &mut String, segment: &[u8]) {
    // Where a segment of dots is not escaped it means another place.
    if matches!(segment, b"." | b"..") {
        out.push_str(&"%2E".repeat(segment.len()));
        return;
    }
    encode(out, segment, |byte| b"!$&'()*+,;=:@".contains(&byte));
}

fn encode(out: &mut String, bytes: &[u8], also_plain: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        let is_unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if is_unreserved || also_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
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
