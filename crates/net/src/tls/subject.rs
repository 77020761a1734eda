//! The subject of a client's certificate.

use rustls_pki_types::CertificateDer;

use super::SITE_URI_PREFIX;

/// 2.5.4.3 and 2.5.4.10 of X.520.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 6;
const UTF8_STRING: u8 = 12;
const PRINTABLE_STRING: u8 = 19;
const IA5_STRING: u8 = 22;

/// Who a client's certificate says its holder is. Every text in it reaches the other end of a header
/// unchanged: none is empty, has a control character, or begins or ends with white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organizations: Vec<String>,
}

impl Subject {
    /// None for a certificate that leaves room for doubt (no common name, two of them, a text that is
    /// not as above), and for one of a site, which is nobody's user.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        let is_site = |name: &str| name.starts_with(SITE_URI_PREFIX);
        if certificate.valid_uri_names().any(is_site) {
            return None;
        }
        Self::read(certificate.subject())
    }

    /// Reads a sequence of relative distinguished names, without its outermost tag.
    fn read(mut names: &[u8]) -> Option<Self> {
        let mut common_name = None;
        let mut organizations = Vec::new();
        while !names.is_empty() {
            let mut attributes = take(&mut names, SET)?;
            while !attributes.is_empty() {
                let mut attribute = take(&mut attributes, SEQUENCE)?;
                match take(&mut attribute, OBJECT_IDENTIFIER)? {
                    COMMON_NAME if common_name.is_some() => return None,
                    COMMON_NAME => common_name = Some(text(attribute)?),
                    ORGANIZATION => organizations.push(text(attribute)?),
                    _ => {}
                }
            }
        }
        Some(Self {
            common_name: common_name?,
            organizations,
        })
    }
}

/// Takes the contents of one value off `input` if it has that tag.
fn take<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found, contents) = value(input)?;
    (found == tag).then_some(contents)
}

/// Takes tag and contents of one value off `input`.
fn value<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        // The long form: how many bytes the length has, then those. No certificate needs three.
        let count = usize::from(first & 0x7f);
        if !matches!(count, 1 | 2) || rest.len() < count {
            return None;
        }
        let (bytes, after) = rest.split_at(count);
        length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = after;
    }
    if rest.len() < length {
        return None;
    }
    let (contents, rest) = rest.split_at(length);
    *input = rest;
    Some((tag, contents))
}

fn text(mut input: &[u8]) -> Option<String> {
    let (tag, bytes) = value(&mut input)?;
    if !matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING) || !input.is_empty() {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let survives = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
    survives.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(oid: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        let mut inner = vec![OBJECT_IDENTIFIER, oid.len() as u8];
        inner.extend(oid);
        inner.extend([tag, value.len() as u8]);
        inner.extend(value);
        let mut outer = vec![SET, inner.len() as u8 + 2, SEQUENCE, inner.len() as u8];
        outer.extend(inner);
        outer
    }

    fn name(value: &str) -> Vec<u8> {
        attribute(COMMON_NAME, UTF8_STRING, value.as_bytes())
    }

    fn group(value: &str) -> Vec<u8> {
        attribute(ORGANIZATION, PRINTABLE_STRING, value.as_bytes())
    }

    #[test]
    fn a_user_and_its_groups() {
        let country = attribute(&[0x55, 4, 6], PRINTABLE_STRING, b"FR");
        let read = Subject::read(&[country, group("a"), name("Zoé"), group("Foo, Inc.")].concat());
        let expected = Subject {
            common_name: "Zoé".into(),
            organizations: vec!["a".into(), "Foo, Inc.".into()],
        };
        assert_eq!(read, Some(expected));
    }

    #[test]
    fn what_leaves_room_for_doubt_is_nobody() {
        let bmp = attribute(COMMON_NAME, 30, &[0, b'a']);
        for doubtful in [
            group("a"),
            [name("a"), name("b")].concat(),
            name(" admin"),
            name("admin\t"),
            name("a\r\nx-remote-group: b"),
            name(""),
            [name("a"), group(" g")].concat(),
            [name("a"), group("")].concat(),
            bmp,
            name("a")[..6].to_vec(),
            [name("a"), vec![SET, 0x84, 0xff, 0xff, 0xff, 0xff]].concat(),
        ] {
            assert_eq!(Subject::read(&doubtful), None, "{doubtful:?}");
        }
    }
}
