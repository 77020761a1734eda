//! A connection that has left HTTP: bytes in both directions.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

use crate::stream::writes_pass;

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// What comes from a stream of which something was read already.
pub(crate) struct Rewound<S> {
    rest: Bytes,
    stream: S,
}

impl<S> Rewound<S> {
    pub(crate) fn new(rest: Bytes, stream: S) -> Self {
        Self { rest, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let bytes = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..bytes]);
        self.rest.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

writes_pass!(Rewound);

/// A connection after a switch of protocols.
pub struct Switched(Rewound<Box<dyn Duplex>>);

impl Switched {
    /// `rest` was read behind the last head.
    pub(crate) fn new(rest: Bytes, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Self {
        Self(Rewound::new(rest, Box::new(stream)))
    }
}

impl AsyncRead for Switched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Switched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A client's connection, once the answer that switches protocols was written; nothing if another answer was.
pub struct OnSwitch(oneshot::Receiver<Switched>);

impl OnSwitch {
    pub(crate) fn new() -> (oneshot::Sender<Switched>, Self) {
        let (tell, told) = oneshot::channel();
        (tell, Self(told))
    }

    pub async fn switched(self) -> Option<Switched> {
        self.0.await.ok()
    }
}
