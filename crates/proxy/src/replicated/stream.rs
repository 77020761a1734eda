//! Answers without an end: they pass, where an answer that ends is read to it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use cheops_net::{Body, BoxError};
use cheops_types::{Code, Limit};
use http_body::Frame;
use http_body_util::BodyExt as _;
use serde::de::IgnoredAny;

use crate::{core::Core, gather::Held};

/// How often what has come is looked at.
const LOOK_MS: u64 = 1_000;
/// An answer of which nothing has come for so many looks is one that waits for something to happen.
const SILENT_LOOKS: u64 = 5;

/// An answer whose length nobody told.
pub(super) enum Read {
    /// It has ended.
    Whole(Bytes, Held),
    /// It goes on, one document after the other. What has come is in front.
    Stream(Body),
}

/// Reads an answer to its end, unless it turns out to have none.
pub(super) async fn read(core: &Core, mut body: Body) -> Result<Read, Code> {
    let limits = core.limits();
    let (mut whole, mut held) = (BytesMut::new(), Held::none(&core.gather_memory));
    let (mut looks, mut still_looks) = (0, 0);
    loop {
        let before = whole.len();
        let reading = fill(core, &mut body, &mut whole, &mut held);
        match core.clock.timeout(LOOK_MS, reading).await {
            Ok(Ok(())) => return Ok(Read::Whole(whole.freeze(), held)),
            Ok(Err(code)) => return Err(code),
            Err(_) => looks += 1,
        }
        still_looks = if whole.len() == before { still_looks + 1 } else { 0 };
        let is_stream = match documents(&whole) {
            Documents::None => looks >= SILENT_LOOKS,
            Documents::Part => false,
            Documents::One => still_looks > 0,
            Documents::More => true,
        };
        if is_stream {
            let front = Some(whole.freeze());
            return Ok(Read::Stream(Body::other(Fronted { front, rest: body })));
        }
        if still_looks * LOOK_MS >= limits.peer_timeout_ms {
            Limit::PeerTimeout.hit();
            return Err(Code::PeerTimeout);
        }
    }
}

/// Takes what comes until the body ends; can be left at any time.
async fn fill(core: &Core, body: &mut Body, whole: &mut BytesMut, held: &mut Held) -> Result<(), Code> {
    let limits = core.limits();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Code::PeerFailed)?.into_data() else {
            continue;
        };
        held.take(data.len(), whole.len(), limits)?;
        whole.extend_from_slice(&data);
    }
    Ok(())
}

/// What a text has so far.
#[derive(Debug, PartialEq, Eq)]
enum Documents {
    None,
    /// The beginning of one, or something else.
    Part,
    One,
    /// One, and something behind it: no document has that.
    More,
}

fn documents(text: &[u8]) -> Documents {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    match values.next() {
        None => Documents::None,
        Some(Err(_)) => Documents::Part,
        Some(Ok(_)) => match values.next() {
            None => Documents::One,
            Some(_) => Documents::More,
        },
    }
}

/// A body with what was already read of it in front.
struct Fronted {
    front: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Fronted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.front.take().filter(|front| !front.is_empty()) {
            Some(front) => Poll::Ready(Some(Ok(Frame::data(front)))),
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
        ] {
            assert_eq!(documents(text.as_bytes()), expect, "{text}");
        }
    }
}
