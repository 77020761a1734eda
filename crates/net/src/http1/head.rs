//! What the heads of requests and answers have in common.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

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

/// Where a field stands in the bytes of its head.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    name: (u32, u32),
    value: (u32, u32),
}

/// So many fields of a head are noted without the heap. Most heads have fewer, and what has room for more is to be made
/// ready for each of them.
const SPANS_INLINE: usize = 32;

/// Where the fields of one head stand in it.
pub(super) struct Spans {
    inline: [Span; SPANS_INLINE],
    heap: Vec<Span>,
    len: usize,
}

impl Spans {
    pub(super) fn new() -> Self {
        Self {
            inline: [Span::default(); SPANS_INLINE],
            heap: Vec::new(),
            len: 0,
        }
    }

    /// Notes where `fields` stand in `bytes`.
    pub(super) fn note(&mut self, bytes: &[u8], fields: &[httparse::Header<'_>]) {
        let begin = bytes.as_ptr() as usize;
        let range = |part: &[u8]| {
            let start = part.as_ptr() as usize - begin;
            (start as u32, (start + part.len()) as u32)
        };
        self.len = fields.len();
        self.heap.clear();
        if fields.len() > SPANS_INLINE {
            self.heap.resize(fields.len(), Span::default());
        }
        for (span, field) in self.all_mut().iter_mut().zip(fields) {
            *span = Span {
                name: range(field.name.as_bytes()),
                value: range(field.value),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn all_mut(&mut self) -> &mut [Span] {
        if self.heap.is_empty() {
            &mut self.inline[..self.len]
        } else {
            &mut self.heap
        }
    }

    fn all(&self) -> &[Span] {
        if self.heap.is_empty() {
            &self.inline[..self.len]
        } else {
            &self.heap
        }
    }

    /// Whether the line before each field ends with CR and LF.
    pub(super) fn follow_whole_lines(&self, head: &[u8]) -> bool {
        self.all().iter().all(|span| {
            let begin = span.name.0 as usize;
            begin >= 2 && head[begin - 2..begin] == *b"\r\n"
        })
    }

    /// The fields, as parts of `head`.
    pub(super) fn fields(
        &self,
        head: &Bytes,
    ) -> impl Iterator<Item = Result<(HeaderName, HeaderValue), HeadError>> {
        self.all().iter().map(|span| {
            let name = &head[span.name.0 as usize..span.name.1 as usize];
            let value = head.slice(span.value.0 as usize..span.value.1 as usize);
            let name = HeaderName::from_bytes(name).map_err(|_| HeadError::Malformed("a field's name"))?;
            let value =
                HeaderValue::from_maybe_shared(value).map_err(|_| HeadError::Malformed("a field's value"))?;
            Ok((name, value))
        })
    }
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
