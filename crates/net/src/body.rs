//! One body type for requests and answers, so that the plain path needs no boxing.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use crate::{
    Ending, Progress, Trailers, answer_body::AnswerBody, box_error::BoxError, place::InFlight,
    request_body::RequestBody,
};

/// Bytes that are there as a whole are handed out in pieces, so that whoever sends them takes only as much as
/// the other side does.
const PIECE_MAX_BYTES: usize = 64 * 1024;

/// A body on its way through.
pub enum Body {
    Empty,
    Full(Option<Bytes>),
    /// A body as it arrives over HTTP/2.
    Incoming(Incoming),
    /// A client's body as it arrives over HTTP/1.1.
    Request(RequestBody),
    /// A service's body as it arrives over HTTP/1.1.
    Answer(AnswerBody),
    /// An answer's body that counts as under way until it is dropped.
    Counted(Incoming, InFlight),
    Watched(Box<Body>, Progress),
    /// A body that ends as if it were whole when its listener is being closed.
    Until(Box<Body>, Ending),
    /// A body from anywhere else, a file say.
    Other(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError>>>),
}

impl Body {
    /// A body of any other kind.
    pub fn other(body: impl http_body::Body<Data = Bytes, Error = BoxError> + 'static) -> Self {
        Self::Other(Box::pin(body))
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            Self::Empty
        } else {
            Self::Full(Some(bytes))
        }
    }

    /// For a body without an end of its own, that may stop after any piece: it ends properly when its
    /// listener is being closed, instead of being cut off.
    #[must_use]
    pub fn until(self, ending: Ending) -> Self {
        Self::Until(Box::new(self), ending)
    }

    /// Whether nothing is left to be handed out after one piece, and nothing of others is held until then.
    pub(crate) fn is_one_piece(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.as_ref().is_none_or(|bytes| bytes.len() <= PIECE_MAX_BYTES),
            _ => false,
        }
    }

    /// Counts what passes, unless there is nothing to count: what is handed out in one piece passes at once.
    pub fn watch(self) -> (Self, Option<Progress>) {
        self.watch_with(None)
    }

    /// Like [`Body::watch`] for a request that somebody else sent, whose trailers are not all let in.
    pub fn watch_request(self, trailers: &Rc<Trailers>) -> (Self, Option<Progress>) {
        self.watch_with(Some(trailers))
    }

    fn watch_with(self, trailers: Option<&Rc<Trailers>>) -> (Self, Option<Progress>) {
        if self.is_end_stream() || self.is_one_piece() {
            return (self, None);
        }
        let progress = Progress::new(trailers);
        (Self::Watched(Box::new(self), progress.clone()), Some(progress))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(next_piece(bytes).map(|piece| Ok(Frame::data(piece)))),
            Self::Incoming(incoming) | Self::Counted(incoming, _) => {
                Pin::new(incoming).poll_frame(cx).map_err(Into::into)
            }
            Self::Request(body) => body.poll_frame(cx),
            Self::Answer(body) => body.poll_frame(cx),
            Self::Watched(body, progress) => {
                let mut frame = ready!(Pin::new(&mut **body).poll_frame(cx));
                if let (Some(Ok(frame)), Some(rules)) = (&mut frame, progress.trailers())
                    && let Some(trailers) = frame.trailers_mut()
                {
                    rules.clean(trailers);
                }
                progress.note(frame.is_none() || body.is_end_stream());
                Poll::Ready(frame)
            }
            Self::Until(_, ending) if ending.has_come(cx) => Poll::Ready(None),
            Self::Until(body, _) => Pin::new(&mut **body).poll_frame(cx),
            Self::Other(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty | Self::Full(None) => true,
            Self::Full(Some(_)) => false,
            Self::Incoming(incoming) | Self::Counted(incoming, _) => incoming.is_end_stream(),
            Self::Request(body) => body.is_end_stream(),
            Self::Answer(body) => body.is_end_stream(),
            Self::Watched(body, _) | Self::Until(body, _) => body.is_end_stream(),
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty | Self::Full(None) => SizeHint::with_exact(0),
            Self::Full(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Incoming(incoming) | Self::Counted(incoming, _) => incoming.size_hint(),
            Self::Request(body) => body.size_hint(),
            Self::Answer(body) => body.size_hint(),
            Self::Watched(body, _) => body.size_hint(),
            Self::Until(..) => SizeHint::new(),
            Self::Other(body) => body.size_hint(),
        }
    }
}

fn next_piece(bytes: &mut Option<Bytes>) -> Option<Bytes> {
    match bytes {
        Some(rest) if rest.len() > PIECE_MAX_BYTES => Some(rest.split_to(PIECE_MAX_BYTES)),
        _ => bytes.take(),
    }
}
