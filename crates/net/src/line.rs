//! A connection of HTTP/1.1 to a service: one request after the other, without a task of its own.
//!
//! Whoever waits for an answer drives the connection. While nobody does, it lies in the pool.

use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Waker},
};

use crate::{http1::HeadLimits, stream::Stream, wire::Wire};

pub(crate) struct Line {
    pub(crate) wire: Wire<Stream>,
    pub(crate) limits: HeadLimits,
    /// How long what is left of a request may stand still once its answer has ended.
    pub(crate) request_stall_ms: u64,
    /// The rest of a request could not be sent, so that nothing else may follow on the connection.
    pub(crate) is_broken: bool,
    /// Who reads the answer while somebody else sends the rest of the request.
    pub(crate) reader: Option<Waker>,
}

/// A connection that nobody else uses, except for the one who sends the rest of its request.
pub(crate) type LineRef = Rc<RefCell<Line>>;

impl Line {
    pub(crate) fn open(stream: Stream, limits: HeadLimits, request_stall_ms: u64) -> LineRef {
        Rc::new(RefCell::new(Self {
            wire: Wire::new(stream),
            limits,
            request_stall_ms,
            is_broken: false,
            reader: None,
        }))
    }

    /// Whether the other side keeps the connection and has said nothing that nobody asked for. The kernel is asked only
    /// where it has told that something came.
    pub(crate) fn is_quiet(&mut self, cx: &mut Context<'_>) -> bool {
        !self.is_broken && self.wire.read.is_empty() && self.wire.poll_fill(cx).is_pending()
    }

    /// Before nobody uses it for a while; false where it cannot be used again.
    pub(crate) fn rest(&mut self) -> bool {
        self.wire.rest();
        !self.is_broken && self.wire.read.is_empty() && self.wire.out.is_empty()
    }

    /// Whether the other side can have seen anything of the request. Of TLS it is not known what has left.
    pub(crate) fn has_sent(&self) -> bool {
        self.wire.has_written || matches!(self.wire.stream, Stream::Tls(_))
    }
}
