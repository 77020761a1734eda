//! Percent-encoding, as far as paths and query parameters need it.

use std::borrow::Cow;

/// The bytes that `text` stands for. A `%` that starts no escape stands for itself.
pub(crate) fn decode(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
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

/// Encodes everything but the unreserved characters of RFC 3986.
pub(crate) fn encode_into(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
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
}
