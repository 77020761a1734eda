//! The body of a request, in whatever version of HTTP it came.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;

use crate::{Body, BoxError, request_body::RequestBody};

/// What a handler is given to read.
pub enum Received {
    Empty,
    /// It came with its head.
    Whole(Bytes),
    Http1(RequestBody),
    Http2(Incoming),
}

impl From<Received> for Body {
    fn from(received: Received) -> Self {
        match received {
            Received::Empty => Self::Empty,
            Received::Whole(bytes) => Self::full(bytes),
            Received::Http1(body) => Self::Request(body),
            Received::Http2(incoming) => Self::Incoming(incoming),
        }
    }
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Http1(body) => body.poll_frame(cx),
            Self::Http2(incoming) => Pin::new(incoming).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Http1(body) => body.size_hint(),
            Self::Http2(incoming) => incoming.size_hint(),
        }
    }
}
