//! A payload as a body.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use cheops_net::BoxError;
use cheops_plan::Chunks;
use http_body::{Frame, SizeHint};
use tokio::task::JoinHandle;

/// A payload on its way out. The disk is read on a thread that may wait for it.
pub(crate) struct Payload {
    remaining: u64,
    state: State,
}

/// What was read, and the reader again.
type Read = (Box<dyn Chunks>, io::Result<Option<Bytes>>);

enum State {
    Idle(Box<dyn Chunks>),
    Reading(JoinHandle<Read>),
    Ended,
}

impl Payload {
    pub(crate) fn new(chunks: Box<dyn Chunks>) -> Self {
        Self {
            remaining: chunks.remaining(),
            state: State::Idle(chunks),
        }
    }
}

impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let State::Idle(_) = this.state
            && let State::Idle(mut chunks) = std::mem::replace(&mut this.state, State::Ended)
        {
            this.state = State::Reading(tokio::task::spawn_blocking(move || {
                let next = chunks.next();
                (chunks, next)
            }));
        }
        let State::Reading(reading) = &mut this.state else {
            return Poll::Ready(None);
        };
        let read = ready!(Pin::new(reading).poll(cx));
        this.state = State::Ended;
        match read {
            Ok((chunks, Ok(Some(bytes)))) => {
                this.remaining = this.remaining.saturating_sub(bytes.len() as u64);
                this.state = State::Idle(chunks);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Ok((_, Ok(None))) => Poll::Ready(None),
            Ok((_, Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Err(error) => Poll::Ready(Some(Err(error.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    struct Pieces(Vec<io::Result<Bytes>>);

    impl Chunks for Pieces {
        fn remaining(&self) -> u64 {
            self.0.iter().flatten().map(|bytes| bytes.len() as u64).sum()
        }

        fn next(&mut self) -> io::Result<Option<Bytes>> {
            if self.0.is_empty() {
                return Ok(None);
            }
            self.0.remove(0).map(Some)
        }
    }

    fn collect(pieces: Vec<io::Result<Bytes>>) -> Result<Bytes, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let payload = Payload::new(Box::new(Pieces(pieces)));
        runtime.block_on(async { Ok(payload.collect().await?.to_bytes()) })
    }

    #[test]
    fn a_payload_arrives_whole_or_fails() {
        let (hel, lo) = (Bytes::from("hel"), Bytes::from("lo"));
        assert_eq!(collect(vec![Ok(hel.clone()), Ok(lo)]).unwrap(), "hello");
        assert_eq!(collect(Vec::new()).unwrap(), "");
        assert!(collect(vec![Ok(hel), Err(io::ErrorKind::Other.into())]).is_err());
    }
}
