//! A stream that gives its core away after a while of reading.
//!
//! A sender that is faster than we read always has more for us. Without this, its connection would be read until the scheduler
//! has had enough of it, and nobody would look whether somebody else has sent something:
//!
//! ```text
//! without   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ bulk ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓│a│b│   a and b sent something at ▲
//!               ▲
//! with      ▓▓▓▓▓▓▓│a│b│▓▓▓▓▓▓▓│▓▓▓▓▓▓▓│   the kernel is asked after each slice
//! ```

use std::{
    future::Future as _,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    task::yield_now,
};

use crate::stream::writes_pass;

/// What is read at once: a fraction of a millisecond, decrypted and handed on.
const SLICE_BYTES: usize = 64 * 1024;

pub(crate) struct Sliced<S> {
    stream: S,
    left_bytes: usize,
}

impl<S> Sliced<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            left_bytes: SLICE_BYTES,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sliced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left_bytes == 0 {
            self.left_bytes = SLICE_BYTES;
            // Polled once, it wakes this task after the kernel was asked what there is for others. Woken in the ordinary way, the
            // task would come back as soon as those that wait already have had their turns.
            if pin!(yield_now()).poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.left_bytes = match read {
            Poll::Ready(_) => self.left_bytes.saturating_sub(buf.filled().len() - before),
            Poll::Pending => SLICE_BYTES,
        };
        ready!(read)?;
        Poll::Ready(Ok(()))
    }
}

writes_pass!(Sliced);

#[cfg(test)]
mod tests {
    use std::{cell::Cell, rc::Rc};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
        task::{LocalSet, spawn_local},
    };

    use super::*;

    /// Always has more.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let room = buf.remaining();
            buf.put_slice(&vec![0; room]);
            Poll::Ready(Ok(()))
        }
    }

    /// How much is read of a stream without an end until somebody else's byte, which has arrived, is seen.
    fn read_meanwhile<S: AsyncRead + Unpin + 'static>(mut bulk: S) -> usize {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut receiver, _) = listener.accept().await.unwrap();
            let was_seen = Rc::new(Cell::new(false));
            let seen = was_seen.clone();
            let waiting = spawn_local(async move {
                receiver.read_u8().await.unwrap();
                seen.set(true);
            });
            let reading = spawn_local(async move {
                let (mut buf, mut bytes) = (vec![0; 16 * 1024], 0);
                // The receiver waits by now.
                tokio::task::yield_now().await;
                sender.write_u8(1).await.unwrap();
                while !was_seen.get() && bytes < 1 << 30 {
                    bytes += bulk.read(&mut buf).await.unwrap();
                }
                bytes
            });
            waiting.await.unwrap();
            reading.await.unwrap()
        })
    }

    #[test]
    fn others_are_seen_after_a_slice() {
        assert!(read_meanwhile(Sliced::new(Endless)) <= 4 * SLICE_BYTES);
        assert_eq!(read_meanwhile(Endless), 1 << 30, "or else not at all");
    }
}
