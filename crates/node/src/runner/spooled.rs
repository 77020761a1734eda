//! A payload as a body: read from the disk on another thread, a few pieces ahead.

use std::{
    io::Read as _,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use cheops_net::{Body, BoxError};
use cheops_store::PayloadReader;
use http_body::{Frame, SizeHint};
use tokio::{sync::mpsc, task::spawn_blocking};

const CHUNK_BYTES: usize = 256 * 1024;
const CHUNKS_AHEAD: usize = 4;

pub(super) fn body(mut reader: PayloadReader) -> Body {
    let left = reader.left();
    let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
    spawn_blocking(move || {
        while reader.left() > 0 {
            let wanted = usize::try_from(reader.left()).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let mut chunk = vec![0; wanted];
            let read = reader.read_exact(&mut chunk).map(|()| Bytes::from(chunk));
            let has_failed = read.is_err();
            // Nobody reads on: the request has ended.
            if sender.blocking_send(read).is_err() || has_failed {
                return;
            }
        }
    });
    Body::other(Spooled { chunks, left })
}

struct Spooled {
    chunks: mpsc::Receiver<std::io::Result<Bytes>>,
    left: u64,
}

impl http_body::Body for Spooled {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.chunks.poll_recv(cx)) {
            Some(Ok(chunk)) => {
                self.left = self.left.saturating_sub(chunk.len() as u64);
                Some(Ok(Frame::data(chunk)))
            }
            Some(Err(error)) => Some(Err(error.into())),
            // The thread ended before the payload did.
            None => Some(Err("a payload could not be read to its end".into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
