//! What the heads of requests and answers have in common.

use http::{HeaderMap, HeaderValue};

/// As many fields as have room without the heap.
pub(super) const FIELDS_INLINE: usize = 100;

/// The bounds of a head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadLimits {
    pub(crate) bytes_max: usize,
    pub(crate) fields_max: usize,
}

/// Why a head is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the head is malformed: {0}")]
    Malformed(&'static str),
    #[error("the head is too long or has too many fields")]
    TooLong,
    #[error("the request's target is too long")]
    TargetTooLong,
}

impl From<httparse::Error> for HeadError {
    fn from(error: httparse::Error) -> Self {
        match error {
            httparse::Error::TooManyHeaders => Self::TooLong,
            httparse::Error::HeaderName => Self::Malformed("a field's name"),
            httparse::Error::HeaderValue => Self::Malformed("a field's value"),
            httparse::Error::NewLine => Self::Malformed("the end of a line"),
            httparse::Error::Status => Self::Malformed("the status"),
            httparse::Error::Token => Self::Malformed("the first line"),
            httparse::Error::Version => Self::Malformed("the version"),
        }
    }
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes; there is no body where it is zero.
    Length(u64),
    Chunked,
    /// With the connection. Only answers may end so.
    UntilClose,
}

impl Framing {
    pub(crate) const NONE: Self = Self::Length(0);
}

/// Whether a head that was not whole with its first `seen` bytes may be so now. Who sends byte by byte must not have
/// the whole head read again for each of them.
pub(super) fn may_be_whole(bytes: &[u8], seen: usize) -> bool {
    if seen == 0 {
        return true;
    }
    let begin = seen.saturating_sub(3);
    let mut lines = bytes[begin..]
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n');
    lines.any(|(at, _)| {
        let at = begin + at;
        // A line that ends in another way is an error, or the end of an answer's head: both are found by reading it.
        let ends_otherwise = at == 0 || bytes[at - 1] != b'\r';
        ends_otherwise || matches!(bytes.get(at + 1), Some(b'\r' | b'\n') if bytes.len() > at + 2 || bytes[at + 1] == b'\n')
    })
}

/// Room for the fields of one head, as `$room` in `$read`.
macro_rules! with_room {
    ($fields_max:expr, $room:ident => $read:expr) => {
        if $fields_max <= $crate::http1::head::FIELDS_INLINE {
            let mut room = [const { ::std::mem::MaybeUninit::uninit() }; $crate::http1::head::FIELDS_INLINE];
            let $room = &mut room[..$fields_max];
            $read
        } else {
            let mut room = vec![::std::mem::MaybeUninit::uninit(); $fields_max];
            let $room = &mut room[..];
            $read
        }
    };
}

pub(super) use with_room;

/// A length in digits and nothing else.
pub(super) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether `chunked` is the coding that was applied last. What is no text names no coding: others may see none there.
pub(super) fn ends_chunked(value: &HeaderValue) -> bool {
    let last = value.to_str().ok().and_then(|text| text.rsplit(',').next());
    last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
}

pub(super) fn lists(value: &HeaderValue, word: &str) -> bool {
    let mut tokens = value.as_bytes().split(|byte| *byte == b',');
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a value of `Connection` is about the connection and nothing else. Then it has been read here and is of no use to
/// anybody: it names no field.
pub(super) fn names_nothing(connection: &HeaderValue) -> bool {
    let connection = connection.as_bytes();
    connection.eq_ignore_ascii_case(b"keep-alive") || connection.eq_ignore_ascii_case(b"close")
}

/// Whether the connection goes on after a message, from its version and what `Connection` says. No later field undoes a
/// `close`.
pub(super) struct KeepAlive {
    pub(super) is_kept: bool,
    is_closed: bool,
}

impl KeepAlive {
    pub(super) fn of_version(is_http_11: bool) -> Self {
        Self {
            is_kept: is_http_11,
            is_closed: false,
        }
    }

    pub(super) fn note(&mut self, value: &HeaderValue) {
        if self.is_closed || lists(value, "close") {
            self.is_closed = true;
            self.is_kept = false;
        } else if !self.is_kept {
            self.is_kept = lists(value, "keep-alive");
        }
    }
}

/// Takes the map of an older head, so that a connection allocates one.
pub(super) fn reuse(spare: &mut HeaderMap, fields: usize) -> HeaderMap {
    let mut headers = std::mem::take(spare);
    headers.clear();
    headers.reserve(fields);
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_comes_in_pieces_is_read_when_it_may_be_whole() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for seen in 1..head.len() {
            for end in seen..=head.len() {
                let is_whole = end == head.len();
                assert_eq!(
                    may_be_whole(&head[..end], seen),
                    is_whole && seen < end,
                    "{seen} {end}"
                );
            }
        }
        assert!(
            may_be_whole(b"GET / HTTP/1.1\nHost: a", 5),
            "an error is seen at once"
        );
        assert!(may_be_whole(b"HTTP/1.1 200 OK\r\na: b\n\n", 21));
    }

    #[test]
    fn a_length_is_digits() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "+1", "-1", " 1", "1 ", "1,1", "0x1", "18446744073709551616"] {
            assert_eq!(digits(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn codings_are_text() {
        let ends = |value: &'static [u8]| ends_chunked(&HeaderValue::from_bytes(value).unwrap());
        assert!(ends(b"chunked") && ends(b"gzip,\t Chunked "));
        assert!(!ends(b"chunked, gzip") && !ends(b"") && !ends(b"\xff,chunked"));
    }

    #[test]
    fn a_close_is_not_undone() {
        let kept = |is_http_11, values: &[&'static str]| {
            let mut keep_alive = KeepAlive::of_version(is_http_11);
            for value in values {
                keep_alive.note(&HeaderValue::from_static(value));
            }
            keep_alive.is_kept
        };
        assert!(kept(true, &[]) && !kept(false, &[]));
        assert!(kept(false, &["x, Keep-Alive"]));
        assert!(!kept(true, &["a, CLOSE", "keep-alive"]));
    }
}
