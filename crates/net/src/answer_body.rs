//! The body of a service's answer, as it arrives.

use std::{
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use cheops_types::Limit;
use http_body::{Frame, SizeHint};
use tokio::{task::JoinHandle, time::timeout};

use crate::{
    BoxError,
    http1::{Decoded, Decoder},
    line::LineRef,
    pool::Pool,
};

/// Gives its connection back at its end. Dropped before that, the connection closes.
pub struct AnswerBody {
    /// None at the end.
    line: Option<LineRef>,
    decoder: Decoder,
    /// None where the connection does not go on.
    pool: Option<Rc<Pool>>,
    /// The rest of the request on its way.
    sending: Option<JoinHandle<()>>,
}

impl AnswerBody {
    pub(crate) fn new(
        line: LineRef,
        decoder: Decoder,
        sending: Option<JoinHandle<()>>,
        pool: Option<&Rc<Pool>>,
    ) -> Self {
        Self {
            line: Some(line),
            decoder,
            pool: pool.cloned(),
            sending,
        }
    }

    /// The whole body, where it is there.
    pub(crate) fn take_whole(&mut self, bytes: u64) -> Option<Bytes> {
        let bytes = usize::try_from(bytes).ok()?;
        let whole = {
            let read = &mut self.line.as_ref()?.borrow_mut().wire.read;
            (read.len() >= bytes).then(|| read.split_to(bytes).freeze())?
        };
        self.finish();
        Some(whole)
    }

    /// The answer has come to its end. A request that has not goes on to be sent, but its connection is not used again.
    pub(crate) fn finish(&mut self) {
        let Some(line) = self.line.take() else { return };
        if let Some(sending) = self.sending.take() {
            tokio::task::spawn_local(look_after(line, sending));
        } else if let Some(pool) = self.pool.take()
            && line.borrow_mut().rest()
        {
            pool.put(line);
        }
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, BoxError>> {
        let Some(line) = &self.line else {
            return Poll::Ready(Ok(Decoded::End));
        };
        let line = &mut *line.borrow_mut();
        loop {
            match self.decoder.decode(&mut line.wire.read)? {
                Decoded::More => {}
                decoded => return Poll::Ready(Ok(decoded)),
            }
            if line.is_broken {
                return Poll::Ready(Err("the rest of the request could not be sent".into()));
            }
            if self.sending.is_some() {
                line.reader = Some(cx.waker().clone());
            }
            if ready!(line.wire.poll_fill(cx))? == 0 {
                self.decoder.close()?;
            }
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.decoder.is_at_end() || self.line.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.decoder.left_bytes() {
            Some(bytes) => SizeHint::with_exact(bytes),
            None => SizeHint::new(),
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let decoded = ready!(self.poll_decoded(cx));
        if decoded.is_err() {
            // Nothing of it can be read any more.
            self.pool = None;
            self.stop();
        } else if self.decoder.is_at_end() {
            self.finish();
        }
        Poll::Ready(match decoded {
            Ok(Decoded::Piece(piece)) => Some(Ok(Frame::data(piece))),
            Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Decoded::End | Decoded::More) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn stop(&mut self) {
        if let Some(sending) = self.sending.take() {
            sending.abort();
        }
        self.line = None;
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Ends what is left of a request when the service takes nothing of it any more, or the client sends nothing: nobody waits for
/// it, and it would keep both connections.
async fn look_after(line: LineRef, mut sending: JoinHandle<()>) {
    let stall = Duration::from_millis(line.borrow().request_stall_ms);
    loop {
        line.borrow_mut().wire.has_written = false;
        if timeout(stall, &mut sending).await.is_ok() {
            return;
        }
        if !line.borrow().wire.has_written {
            Limit::RequestStall.hit();
            sending.abort();
            return;
        }
    }
}
