//! Answers without an end: they pass, where an answer that ends is read to it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use cheops_net::{Body, BoxError};
use cheops_types::{Code, Limit};
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::{core::Core, memory::Lease, pieces::Pieces};

/// How often what has come is looked at.
const LOOK_MS: u64 = 1_000;
/// An answer of which nothing has come for so many looks is one that waits for something to happen.
const SILENT_LOOKS: u64 = 5;

/// An answer whose length nobody told.
pub(super) enum Read {
    /// It has ended.
    Whole(Bytes, Lease),
    /// It goes on, one document after the other. What has come is in front.
    Stream(Body),
}

/// Reads an answer to its end, unless it turns out to have none.
pub(super) async fn read(core: &Core, mut body: Body) -> Result<Read, Code> {
    let limits = core.limits();
    let (mut pieces, mut held) = (Pieces::default(), Lease::none(&core.shared.memory));
    let mut counting = Counting::default();
    let (mut looks, mut still_looks) = (0, 0);
    loop {
        let before = pieces.bytes();
        let reading = fill(core, &mut body, &mut pieces, &mut counting, &mut held);
        match core.clock.timeout(LOOK_MS, reading).await {
            Ok(Ok(())) => {
                let (whole, held) = core.join(pieces, held).await?;
                return Ok(Read::Whole(whole, held));
            }
            Ok(Err(code)) => return Err(code),
            Err(_) => looks += 1,
        }
        still_looks = if pieces.bytes() == before {
            still_looks + 1
        } else {
            0
        };
        let is_stream = match counting.documents {
            Documents::None => looks >= SILENT_LOOKS,
            Documents::Part => false,
            Documents::One => still_looks > 0,
            Documents::More => true,
        };
        if is_stream {
            let front = Some(core.join(pieces, held).await?);
            return Ok(Read::Stream(Body::other(Fronted { front, rest: body })));
        }
        if still_looks * LOOK_MS >= limits.peer_timeout_ms {
            Limit::PeerTimeout.hit();
            return Err(Code::PeerTimeout);
        }
    }
}

/// Takes what comes until the body ends; can be left at any time.
async fn fill(
    core: &Core,
    body: &mut Body,
    pieces: &mut Pieces,
    counting: &mut Counting,
    held: &mut Lease,
) -> Result<(), Code> {
    let limits = core.limits();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Code::PeerFailed)?.into_data() else {
            continue;
        };
        held.take(data.len(), pieces.bytes(), limits)?;
        pieces.push(&data);
        counting.push(&data);
    }
    Ok(())
}

/// What a text has so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Documents {
    None,
    /// The beginning of one, or something else.
    Part,
    One,
    /// One, and something behind it: no document has that.
    More,
}

/// Counts the documents of a text as it comes, objects and arrays. Each byte is looked at once, and nothing is checked
/// but where a document ends: what is no document is none whatever it is taken for.
struct Counting {
    documents: Documents,
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    #[cfg(test)]
    looked_at: usize,
}

impl Default for Counting {
    fn default() -> Self {
        Self {
            documents: Documents::None,
            depth: 0,
            is_text: false,
            is_escaped: false,
            #[cfg(test)]
            looked_at: 0,
        }
    }
}

impl Counting {
    fn push(&mut self, data: &[u8]) {
        for byte in data {
            #[cfg(test)]
            {
                self.looked_at += 1;
            }
            match self.documents {
                Documents::None | Documents::One if byte.is_ascii_whitespace() => {}
                Documents::None => {
                    self.documents = Documents::Part;
                    self.inside(*byte);
                }
                Documents::Part => self.inside(*byte),
                Documents::One => self.documents = Documents::More,
                Documents::More => return,
            }
        }
    }

    fn inside(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = self.is_text,
            b'"' => self.is_text = !self.is_text,
            _ if self.is_text => {}
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.documents = Documents::One;
                }
            }
            _ => {}
        }
    }
}

/// A body with what was already read of it in front.
struct Fronted {
    front: Option<(Bytes, Lease)>,
    rest: Body,
}

impl http_body::Body for Fronted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.front.take().filter(|(front, _)| !front.is_empty()) {
            Some((front, _)) => Poll::Ready(Some(Ok(Frame::data(front)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_is_an_answer_and_more_are_a_stream() {
        for (text, expect) in [
            ("", Documents::None),
            (" \n", Documents::None),
            ("{\"items\":[{\"id\":1},", Documents::Part),
            ("<html>", Documents::Part),
            ("{\"id\":1}\n", Documents::One),
            ("{\"id\":1}\n{\"id\"", Documents::More),
            ("{\"id\":1}{\"id\":2}", Documents::More),
            (r#"{"a":"}\\\"}","b":["#, Documents::Part),
            (r#"[{"a":"]\\"}] "#, Documents::One),
        ] {
            for piece in 1..=text.len().max(1) {
                let mut counting = Counting::default();
                for piece in text.as_bytes().chunks(piece) {
                    counting.push(piece);
                }
                assert_eq!(counting.documents, expect, "{text}");
            }
        }
    }

    /// What had come was read again with every look: a long answer that comes slowly took more from look to look.
    #[test]
    fn what_comes_slowly_is_looked_at_once() {
        let (mut counting, pieces) = (Counting::default(), 1000);
        for _ in 0..pieces {
            counting.push(b"[\"something\"");
            assert_eq!(counting.documents, Documents::Part);
        }
        assert_eq!(counting.looked_at, pieces * b"[\"something\"".len());
    }
}
