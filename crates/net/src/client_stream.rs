//! A client's TCP connection, and what can be seen of the client on it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{Client, budget::Place, stream::keep_lively};

/// What the kernel takes from us before it was sent. Its buffers grow to megabytes, and with them the time
/// in which a client that reads slowly, but reads, cannot be told from one that does not.
const UNSENT_MAX_BYTES: u32 = 128 * 1024;

/// What a connection and whoever serves it tell each other. Both are on one thread; it is made of atomics
/// because HTTP wants streams that could change theirs.
#[derive(Debug)]
pub(crate) struct Flow {
    place: Place,
    /// What was read before HTTP began, of a handshake of TLS.
    handshake_bytes: AtomicUsize,
    has_begun: AtomicBool,
    /// The client has not taken what was written last.
    is_owed: AtomicBool,
    taken_bytes: AtomicU64,
    is_given_up: AtomicBool,
}

impl Flow {
    fn new(place: Place) -> Self {
        Self {
            place,
            handshake_bytes: AtomicUsize::new(0),
            has_begun: AtomicBool::new(false),
            is_owed: AtomicBool::new(false),
            taken_bytes: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Whose budgets count; none for one who is not counted.
    pub(crate) fn client(&self) -> Option<Client> {
        self.place.client()
    }

    /// The handshake is over, if there was one. From now on who reads heads says how long they are.
    pub(crate) fn begin_http(&self) {
        self.has_begun.store(true, Relaxed);
        self.place.release();
    }

    /// Whether a head may have come this far without an end.
    pub(crate) fn may_hold(&self, head_bytes: usize) -> bool {
        self.place.may_hold(head_bytes)
    }

    /// The head has come to its end.
    pub(crate) fn end_head(&self) {
        self.place.release();
    }

    fn note_read(&self, bytes: usize) {
        if !self.has_begun.load(Relaxed) {
            self.handshake_bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// False when the handshakes and heads that have not come to their ends are too long together. Asked before more is read:
    /// what came at once with the end of its handshake is no concern.
    fn may_read(&self) -> bool {
        self.has_begun.load(Relaxed) || self.place.may_hold(self.handshake_bytes.load(Relaxed))
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.is_owed.load(Relaxed)
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }

    /// The connection is reset when it is closed, so that the kernel does not keep what nobody reads.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
    }

    fn note_written<T>(&self, written: &Poll<io::Result<T>>, bytes: impl FnOnce(&T) -> usize) {
        match written {
            Poll::Pending => self.is_owed.store(true, Relaxed),
            Poll::Ready(Ok(done)) => {
                self.is_owed.store(false, Relaxed);
                let taken_bytes = self.taken_bytes() + bytes(done) as u64;
                self.taken_bytes.store(taken_bytes, Relaxed);
            }
            Poll::Ready(Err(_)) => {}
        }
    }
}

pub(crate) struct ClientStream {
    stream: TcpStream,
    flow: Arc<Flow>,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, place: Place) -> Self {
        keep_lively(&stream);
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_MAX_BYTES);
        Self {
            stream,
            flow: Arc::new(Flow::new(place)),
        }
    }

    pub(crate) fn flow(&self) -> Arc<Flow> {
        self.flow.clone()
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if self.flow.is_given_up.load(Relaxed) {
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.flow.may_read() {
            return Poll::Ready(Err(io::Error::other("too much of unfinished heads is in memory")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.flow.note_read(buf.filled().len() - before);
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.flow.note_written(&written, |bytes| *bytes);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.flow.note_written(&written, |bytes| *bytes);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Of TCP there is nothing to flush.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
