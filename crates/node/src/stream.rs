//! A payload as a body: read piece by piece, on a thread that may wait for the disk.

use std::{
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use cheops_net::{Body, BoxError};
use cheops_store::{Payload, PayloadReader};
use http_body::{Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

const PIECE_BYTES: u64 = 256 * 1024;

/// What a reader has left. What no record refers to stays in the spool until it is read: `kept`.
pub(crate) fn body(reader: PayloadReader, kept: Option<Payload>) -> Body {
    let left = reader.left();
    let reader: Box<dyn Read + Send> = Box::new(reader);
    Body::other(Stream {
        left,
        state: State::Idle(reader),
        _kept: kept,
    })
}

struct Stream {
    left: u64,
    state: State,
    _kept: Option<Payload>,
}

/// What was read, and the reader again.
type Piece = (Box<dyn Read + Send>, io::Result<Bytes>);

enum State {
    Idle(Box<dyn Read + Send>),
    Reading(JoinHandle<Piece>),
    Ended,
}

/// A thread is taken for one piece only: whoever reads slowly holds none.
fn begin(mut reader: Box<dyn Read + Send>, left: u64) -> JoinHandle<Piece> {
    spawn_blocking(move || {
        let mut piece = vec![0; left.min(PIECE_BYTES) as usize];
        let read = reader.read_exact(&mut piece);
        (reader, read.map(|()| piece.into()))
    })
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.left == 0 {
            this.state = State::Ended;
        }
        this.state = match std::mem::replace(&mut this.state, State::Ended) {
            State::Idle(reader) => State::Reading(begin(reader, this.left)),
            state => state,
        };
        let State::Reading(reading) = &mut this.state else {
            return Poll::Ready(None);
        };
        let read = ready!(Pin::new(reading).poll(cx));
        this.state = State::Ended;
        Poll::Ready(Some(match read {
            Ok((reader, Ok(piece))) => {
                this.left -= piece.len() as u64;
                this.state = State::Idle(reader);
                Ok(Frame::data(piece))
            }
            Ok((_, Err(error))) => Err(error.into()),
            Err(error) => Err(error.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0 || matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn collect(text: &'static [u8], left: u64) -> Result<Bytes, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let stream = Stream {
            left,
            state: State::Idle(Box::new(text)),
            _kept: None,
        };
        runtime.block_on(async { Ok(stream.collect().await?.to_bytes()) })
    }

    #[test]
    fn a_payload_arrives_whole_or_fails() {
        assert_eq!(collect(b"hello", 5).unwrap(), "hello");
        assert_eq!(collect(b"hello", 0).unwrap(), "");
        assert!(collect(b"hel", 5).is_err());
        let long: &'static [u8] = vec![7; 3 * PIECE_BYTES as usize + 1].leak();
        assert_eq!(collect(long, long.len() as u64).unwrap(), long);
    }
}
