//! A connection of HTTP/1.1 with what was read of it and what is to be written to it.

use std::{
    future::Future as _,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use crate::http1::{Output, Spans};

/// What is read at once to begin with, and at most where a sender always has more.
const READ_MIN_BYTES: usize = 8 * 1024;
const READ_MAX_BYTES: usize = 64 * 1024;

pub(crate) struct Wire<S> {
    pub(crate) stream: S,
    /// What was read and not taken.
    pub(crate) read: BytesMut,
    /// So much of it was looked at without finding the end of a head.
    pub(crate) seen: usize,
    pub(crate) out: Output,
    /// The fields of the head that is read, or was read last.
    pub(crate) spans: Spans,
    /// The map of an older head, to be used again.
    pub(crate) spare: HeaderMap,
    /// Whether the kernel has taken anything since this was reset.
    pub(crate) has_written: bool,
    read_bytes: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            seen: 0,
            out: Output::default(),
            spans: Spans::default(),
            spare: HeaderMap::new(),
            has_written: false,
            read_bytes: READ_MIN_BYTES,
        }
    }

    /// Reads once, and says how much; nothing at the end of what comes.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let len = self.read.len();
        // Less room would cut a head in two, which takes another call of the kernel.
        if self.read.capacity() - len < self.read_bytes / 2 {
            let more = self.read_bytes.checked_sub(len).filter(|more| *more > 0);
            self.read.reserve(more.unwrap_or(self.read_bytes));
        }
        let room = self.read.capacity() - len;
        let bytes = ready!(pin!(self.stream.read_buf(&mut self.read)).poll(cx))?;
        if bytes == room {
            self.read_bytes = (2 * self.read_bytes).min(READ_MAX_BYTES);
        }
        Poll::Ready(Ok(bytes))
    }

    /// Writes everything that waits.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let stream = Pin::new(&mut self.stream);
            let bytes = match self.out.one_slice() {
                Some(slice) => ready!(stream.poll_write(cx, slice))?,
                None => ready!(stream.poll_write_vectored(cx, &self.out.slices()))?,
            };
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.has_written = true;
            self.out.advance(bytes);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Gives up room that only long bodies need, before the connection waits for its next message.
    pub(crate) fn rest(&mut self) {
        if self.read_bytes > READ_MIN_BYTES && self.read.is_empty() {
            self.read = BytesMut::new();
            self.read_bytes = READ_MIN_BYTES;
        }
    }
}
