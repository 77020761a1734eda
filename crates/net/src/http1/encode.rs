//! Heads and bodies, written as bytes.

use std::io::IoSlice;

use bytes::{Buf as _, Bytes};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{
        AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, DATE, HOST, MAX_FORWARDS, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    },
};

use super::{
    answer::Reason,
    head::{digits, lists},
};

/// Pieces up to this length are copied behind what waits already, so that they leave in one go with it.
pub(crate) const FLAT_MAX_BYTES: usize = 8 * 1024;

/// What is to be written to a connection: bytes, then perhaps one long piece that is not copied, then bytes again.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    written: usize,
    piece: Bytes,
    /// What follows the piece.
    tail: &'static [u8],
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.written == self.bytes.len() && self.piece.is_empty() && self.tail.is_empty()
    }

    /// Whether it must be written before more is added.
    pub(crate) fn is_full(&self) -> bool {
        !self.piece.is_empty()
            || !self.tail.is_empty()
            || self.bytes.len() - self.written > 2 * FLAT_MAX_BYTES
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        debug_assert!(
            self.piece.is_empty() && self.tail.is_empty(),
            "something waits already"
        );
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a piece of a body with what follows it.
    fn push_piece(&mut self, piece: Bytes, tail: &'static [u8]) {
        if piece.len() <= FLAT_MAX_BYTES {
            self.push(&piece);
            self.push(tail);
        } else {
            self.piece = piece;
            self.tail = tail;
        }
    }

    /// What waits, in its order.
    pub(crate) fn slices(&self) -> [IoSlice<'_>; 3] {
        [
            IoSlice::new(&self.bytes[self.written..]),
            IoSlice::new(&self.piece),
            IoSlice::new(self.tail),
        ]
    }

    /// The only thing that waits, where there is one.
    pub(crate) fn one_slice(&self) -> Option<&[u8]> {
        (self.piece.is_empty() && self.tail.is_empty()).then(|| &self.bytes[self.written..])
    }

    /// So much was written.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        let of_bytes = bytes.min(self.bytes.len() - self.written);
        self.written += of_bytes;
        bytes -= of_bytes;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        let of_piece = bytes.min(self.piece.len());
        self.piece.advance(of_piece);
        self.tail = &self.tail[bytes - of_piece..];
        if self.piece.is_empty() && of_piece > 0 {
            // It may keep more than itself alive.
            self.piece = Bytes::new();
        }
    }
}

/// What is known of a body before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// There is none.
    Empty,
    Exact(u64),
    Unknown,
}

/// Where the body that is being written stands.
#[derive(Debug)]
pub(crate) enum Encoder {
    Length(u64),
    /// With the trailers that may follow.
    Chunked(Vec<HeaderName>),
    UntilClose,
}

impl Encoder {
    /// Whether nothing may follow any more.
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self, Self::Length(0))
    }

    /// Adds a piece. False where it is more than was announced: then the message cannot be ended.
    #[must_use]
    pub(crate) fn piece(&mut self, out: &mut Output, piece: Bytes) -> bool {
        match self {
            _ if piece.is_empty() => {}
            Self::Length(left_bytes) => {
                let Some(left) = left_bytes.checked_sub(piece.len() as u64) else {
                    return false;
                };
                *left_bytes = left;
                out.push_piece(piece, b"");
            }
            Self::Chunked(_) => {
                push_hex(out, piece.len());
                out.push_piece(piece, b"\r\n");
            }
            Self::UntilClose => out.push_piece(piece, b""),
        }
        true
    }

    /// Ends the body. False where it is less than was announced.
    #[must_use]
    pub(crate) fn end(&mut self, out: &mut Output, trailers: Option<&HeaderMap>) -> bool {
        match self {
            Self::Length(left_bytes) => return *left_bytes == 0,
            Self::UntilClose => {}
            Self::Chunked(announced) => {
                // A long piece may still wait, with the end of its chunk.
                out.bytes_at_end(b"0\r\n");
                for (name, value) in trailers.into_iter().flatten() {
                    if announced.contains(name) && may_trail(name) {
                        out.field_at_end(name, value);
                    }
                }
                out.bytes_at_end(b"\r\n");
            }
        }
        *self = Self::Length(0);
        true
    }
}

impl Output {
    /// Adds behind everything that waits. What waits is at most one piece with the end of its chunk.
    fn bytes_at_end(&mut self, bytes: &'static [u8]) {
        match (self.tail, bytes) {
            (b"", _) if self.piece.is_empty() => self.push(bytes),
            (b"\r\n", b"0\r\n") => self.tail = b"\r\n0\r\n",
            (b"\r\n0\r\n", b"\r\n") => self.tail = b"\r\n0\r\n\r\n",
            _ => self.flatten().push(bytes),
        }
    }

    fn field_at_end(&mut self, name: &HeaderName, value: &HeaderValue) {
        push_field(self.flatten(), name, value);
    }

    fn flatten(&mut self) -> &mut Self {
        let (piece, tail) = (std::mem::take(&mut self.piece), std::mem::take(&mut self.tail));
        self.push(&piece);
        self.push(tail);
        self
    }
}

/// Writes the head of a request; the body follows by the encoder.
pub(crate) fn encode_request(
    out: &mut Output,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    length: Length,
) -> Encoder {
    out.push(method.as_str().as_bytes());
    out.push(b" ");
    match uri.path_and_query() {
        Some(path) => out.push(path.as_str().as_bytes()),
        None => out.push(b"/"),
    }
    out.push(b" HTTP/1.1\r\n");
    let mut told: Option<u64> = None;
    for (name, value) in headers {
        match *name {
            TRANSFER_ENCODING => {}
            CONTENT_LENGTH => told = told.or(digits(value.as_bytes())),
            _ => push_field(out, name, value),
        }
    }
    let encoder = match (length, told) {
        (Length::Empty, told) => {
            if told.is_some() {
                out.push(b"content-length: 0\r\n");
            }
            Encoder::Length(0)
        }
        (Length::Exact(bytes), _) | (Length::Unknown, Some(bytes)) => {
            push_length(out, bytes);
            Encoder::Length(bytes)
        }
        (Length::Unknown, None) => {
            out.push(b"transfer-encoding: chunked\r\n");
            Encoder::Chunked(announced(headers))
        }
    };
    out.push(b"\r\n");
    encoder
}

/// What an answer depends on of its request and its connection.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is of another field of the request
pub(crate) struct AnswerForm {
    pub(crate) is_http_11: bool,
    pub(crate) is_head: bool,
    pub(crate) takes_trailers: bool,
    /// Whether the connection may go on.
    pub(crate) keeps_alive: bool,
}

/// Writes the head of an answer; the body follows by the encoder. Also whether the connection goes on after it. `date` adds
/// the line with the date, where the answer has none.
pub(crate) fn encode_answer(
    out: &mut Output,
    status: StatusCode,
    reason: Option<&Reason>,
    headers: &HeaderMap,
    length: Length,
    form: AnswerForm,
    date: impl FnOnce(&mut Output),
) -> (Encoder, bool) {
    push_status(out, status, reason, form.is_http_11);
    let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
    let has_no_body =
        status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let mut keeps_alive = form.keeps_alive;
    let (mut told, mut has_date, mut has_connection) = (None, false, false);
    for (name, value) in headers {
        match *name {
            TRANSFER_ENCODING => continue,
            CONTENT_LENGTH => {
                told = told.or(digits(value.as_bytes()));
                continue;
            }
            TRAILER if !form.is_http_11 || has_no_body || form.is_head => continue,
            CONNECTION => {
                has_connection = true;
                keeps_alive &= !lists(value, "close");
            }
            DATE => has_date = true,
            _ => {}
        }
        push_field(out, name, value);
    }
    let encoder = if has_no_body {
        Encoder::Length(0)
    } else if form.is_head {
        if let Some(bytes) = told {
            push_length(out, bytes);
        }
        Encoder::Length(0)
    } else {
        match (length, told) {
            (Length::Empty, _) => {
                out.push(b"content-length: 0\r\n");
                Encoder::Length(0)
            }
            (Length::Exact(bytes), _) | (Length::Unknown, Some(bytes)) => {
                push_length(out, bytes);
                Encoder::Length(bytes)
            }
            (Length::Unknown, None) if form.is_http_11 => {
                out.push(b"transfer-encoding: chunked\r\n");
                let trailers = if form.takes_trailers {
                    announced(headers)
                } else {
                    Vec::new()
                };
                Encoder::Chunked(trailers)
            }
            (Length::Unknown, None) => Encoder::UntilClose,
        }
    };
    keeps_alive &= !matches!(encoder, Encoder::UntilClose);
    if !has_connection && !is_switch {
        match (form.is_http_11, keeps_alive) {
            (true, false) => out.push(b"connection: close\r\n"),
            (false, true) => out.push(b"connection: keep-alive\r\n"),
            _ => {}
        }
    }
    if !has_date {
        date(out);
    }
    out.push(b"\r\n");
    (encoder, keeps_alive)
}

fn push_status(out: &mut Output, status: StatusCode, reason: Option<&Reason>, is_http_11: bool) {
    if status == StatusCode::OK && is_http_11 && reason.is_none() {
        return out.push(b"HTTP/1.1 200 OK\r\n");
    }
    out.push(if is_http_11 { b"HTTP/1.1 " } else { b"HTTP/1.0 " });
    out.push(status.as_str().as_bytes());
    out.push(b" ");
    match reason {
        Some(Reason(reason)) => out.push(reason),
        // Many readers expect one.
        None => out.push(status.canonical_reason().unwrap_or("Unknown").as_bytes()),
    }
    out.push(b"\r\n");
}

fn push_field(out: &mut Output, name: &HeaderName, value: &HeaderValue) {
    let (name, value) = (name.as_str().as_bytes(), value.as_bytes());
    out.bytes.reserve(name.len() + value.len() + 4);
    out.push(name);
    out.push(b": ");
    out.push(value);
    out.push(b"\r\n");
}

fn push_length(out: &mut Output, bytes: u64) {
    out.push(b"content-length: ");
    let mut text = [0; 20];
    let mut left = bytes;
    let mut begin = text.len();
    loop {
        begin -= 1;
        text[begin] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.push(&text[begin..]);
    out.push(b"\r\n");
}

fn push_hex(out: &mut Output, bytes: usize) {
    let digits = (usize::BITS - bytes.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(&[b"0123456789abcdef"[bytes >> (4 * digit) & 15]]);
    }
    out.push(b"\r\n");
}

/// The trailers that a head announces. No others are sent.
fn announced(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(TRAILER).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

/// Whether a field may stand behind a body at all.
fn may_trail(name: &HeaderName) -> bool {
    !matches!(
        *name,
        AUTHORIZATION
            | CACHE_CONTROL
            | CONTENT_ENCODING
            | CONTENT_LENGTH
            | CONTENT_RANGE
            | CONTENT_TYPE
            | HOST
            | MAX_FORWARDS
            | SET_COOKIE
            | TRAILER
            | TRANSFER_ENCODING
            | TE
    )
}

#[cfg(test)]
mod tests;
