//! The body of a request, as it arrives at a connection of HTTP/1.1.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::{
    BoxError,
    client_stream::ClientStream,
    http1::{Decoded, Decoder, Framing},
    slice::Sliced,
    stream::Stream,
    wire::Wire,
};

/// What a connection and the body of its request share.
pub(crate) struct Inbound {
    pub(crate) wire: Wire<ClientSide>,
    pub(crate) decoder: Decoder,
    /// Which request the decoder is about.
    pub(crate) number: u64,
    /// The client sends the body when it is told to.
    pub(crate) waits_for_continue: bool,
    /// It is being told. Nothing else is written meanwhile.
    is_telling: bool,
    /// The body cannot be read to its end.
    pub(crate) has_failed: bool,
    /// The connection's own task, which waits for the body's end.
    pub(crate) owner: Option<Waker>,
}

pub(crate) type ClientSide = Sliced<Stream<ClientStream>>;

impl Inbound {
    pub(crate) fn new(wire: Wire<ClientSide>) -> Self {
        Self {
            wire,
            decoder: Decoder::new(Framing::NONE),
            number: 0,
            waits_for_continue: false,
            is_telling: false,
            has_failed: false,
            owner: None,
        }
    }

    /// From now on only the answer is written. A client that was not told to send its body may do so or not, so that nobody
    /// can know what comes: the body is not read any more.
    pub(crate) fn begin_answer(&mut self) {
        self.is_telling = false;
        self.has_failed |= std::mem::take(&mut self.waits_for_continue);
    }

    fn wake_owner(&mut self) {
        if let Some(owner) = self.owner.take() {
            owner.wake();
        }
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, BoxError>> {
        if self.has_failed {
            return Poll::Ready(Err("the body broke off".into()));
        }
        if std::mem::take(&mut self.waits_for_continue) {
            self.wire.out.push(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.is_telling = true;
        }
        if self.is_telling && self.wire.poll_flush(cx)?.is_ready() {
            self.is_telling = false;
        }
        loop {
            match self.decoder.decode(&mut self.wire.read)? {
                Decoded::More => {}
                decoded => return Poll::Ready(Ok(decoded)),
            }
            if ready!(self.wire.poll_fill(cx))? == 0 {
                self.decoder.close()?;
            }
        }
    }
}

/// A body that is read off its connection when somebody asks for it.
pub struct RequestBody {
    inbound: Rc<RefCell<Inbound>>,
    number: u64,
}

impl RequestBody {
    pub(crate) fn new(inbound: &Rc<RefCell<Inbound>>) -> Self {
        Self::of(inbound, inbound.borrow().number)
    }

    /// The body of the request with a number.
    pub(crate) fn of(inbound: &Rc<RefCell<Inbound>>, number: u64) -> Self {
        Self {
            inbound: inbound.clone(),
            number,
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let inbound = &mut *self.inbound.borrow_mut();
        if inbound.number != self.number {
            return Poll::Ready(None);
        }
        let decoded = ready!(inbound.poll_decoded(cx));
        inbound.has_failed |= decoded.is_err();
        if inbound.decoder.is_at_end() || inbound.has_failed {
            inbound.wake_owner();
        }
        Poll::Ready(match decoded {
            Ok(Decoded::Piece(piece)) => Some(Ok(Frame::data(piece))),
            Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Decoded::End | Decoded::More) => None,
            Err(error) => Some(Err(error)),
        })
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        let inbound = self.inbound.borrow();
        inbound.number != self.number || inbound.decoder.is_at_end()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let inbound = self.inbound.borrow();
        if inbound.number != self.number {
            return SizeHint::with_exact(0);
        }
        match inbound.decoder.left_bytes() {
            Some(bytes) => SizeHint::with_exact(bytes),
            None => SizeHint::new(),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.inbound.borrow_mut().wake_owner();
    }
}
