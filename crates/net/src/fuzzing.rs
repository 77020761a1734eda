//! HTTP/1.1 as bytes, read without a connection. For the fuzzer (`crates/fuzzing`) only, which compares it with another
//! reader.

use bytes::BytesMut;
use http::{HeaderMap, Method};

use crate::http1::{Decoded, Decoder, Framing, HeadLimits, Spans, read_answer, read_request};

const LIMITS: HeadLimits = HeadLimits {
    bytes_max: 64 * 1024,
    fields_max: 100,
};

/// One message as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Method and target, or the status.
    pub first: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
    /// The body came to its end.
    pub is_whole: bool,
}

/// Why nothing more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// More may come.
    Waits,
    /// The last message ends the connection.
    Closes,
    Refuses,
}

/// The requests of a connection whose client sends `input` in pieces of `piece` bytes and then waits.
pub fn requests(input: &[u8], piece: usize) -> (Vec<Message>, Stop) {
    let mut reader = Reader::new(input, piece);
    let mut messages = Vec::new();
    let mut spans = Spans::default();
    loop {
        let mut seen = 0;
        let head = loop {
            let (buf, spare) = (&mut reader.buf, &mut HeaderMap::new());
            match read_request(buf, &mut seen, LIMITS, &mut spans, spare) {
                Ok(Some(head)) => break head,
                Ok(None) if reader.more() => {}
                Ok(None) => return (messages, Stop::Waits),
                Err(_) => return (messages, Stop::Refuses),
            }
        };
        let mut message = Message {
            first: format!("{} {}", head.method, head.uri),
            headers: head.headers,
            body: Vec::new(),
            trailers: None,
            is_whole: false,
        };
        let stop = reader.body(head.framing, &mut message, false);
        messages.push(message);
        if let Some(stop) = stop {
            return (messages, stop);
        }
        if !head.keeps_alive {
            return (messages, Stop::Closes);
        }
    }
}

/// The answer to a request of `method`, on a connection that ends after `input`; none where it is refused.
pub fn answer(input: &[u8], piece: usize, method: &Method) -> Option<Message> {
    let mut reader = Reader::new(input, piece);
    let mut seen = 0;
    let is_to_head = *method == Method::HEAD;
    let head = loop {
        let (buf, spans, spare) = (&mut reader.buf, &mut Spans::default(), &mut HeaderMap::new());
        match read_answer(buf, &mut seen, LIMITS, spans, spare, is_to_head) {
            Ok(Some(head)) => break head,
            Ok(None) if reader.more() => {}
            _ => return None,
        }
    };
    let mut message = Message {
        first: head.status.as_str().to_owned(),
        headers: head.headers,
        body: Vec::new(),
        trailers: None,
        is_whole: false,
    };
    reader.body(head.framing, &mut message, true);
    Some(message)
}

struct Reader<'i> {
    rest: std::slice::Chunks<'i, u8>,
    buf: BytesMut,
}

impl<'i> Reader<'i> {
    fn new(input: &'i [u8], piece: usize) -> Self {
        Self {
            rest: input.chunks(piece.max(1)),
            buf: BytesMut::new(),
        }
    }

    fn more(&mut self) -> bool {
        self.rest.next().is_some_and(|piece| {
            self.buf.extend_from_slice(piece);
            true
        })
    }

    /// Why the body does not come to its end, if it does not.
    fn body(&mut self, framing: Framing, message: &mut Message, ends: bool) -> Option<Stop> {
        let mut decoder = Decoder::new(framing);
        loop {
            match decoder.decode(&mut self.buf) {
                Ok(Decoded::Piece(piece)) => message.body.extend_from_slice(&piece),
                Ok(Decoded::Trailers(trailers)) => message.trailers = Some(trailers),
                Ok(Decoded::End) => {
                    message.is_whole = true;
                    return None;
                }
                Ok(Decoded::More) if self.more() => {}
                Ok(Decoded::More) if ends && decoder.close().is_ok() => {}
                Ok(Decoded::More) => return Some(Stop::Waits),
                Err(_) => return Some(Stop::Refuses),
            }
        }
    }
}
