//! The body of a request on its way to a service.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use http_body::Body as _;

use crate::{Body, http1::Encoder, line::Line};

/// Why a request was not sent to its end.
pub(super) enum UploadError {
    /// The service's side of the connection.
    Write(io::Error),
    /// The body's own side: what was sent of it must never look whole.
    Body(String),
}

pub(super) struct Upload {
    /// None once all of it waits to be written.
    body: Option<Body>,
    encoder: Encoder,
    is_done: bool,
}

impl Upload {
    /// The head waits to be written already.
    pub(super) fn new(body: Body, encoder: Encoder) -> Self {
        Self {
            body: Some(body).filter(|_| !encoder.is_at_end()),
            encoder,
            is_done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// What is left, for somebody else to send.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self {
            body: None,
            encoder: Encoder::UntilClose,
            is_done: true,
        };
        std::mem::replace(self, nothing)
    }

    /// Sends what is there. A short body leaves together with its head.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        line: &Rc<RefCell<Line>>,
    ) -> Poll<Result<(), UploadError>> {
        loop {
            let Some(body) = &mut self.body else {
                return poll_flush(cx, line).map_ok(|()| self.is_done = true);
            };
            if line.borrow().wire.out.is_full() {
                std::task::ready!(poll_flush(cx, line))?;
                continue;
            }
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                // What the service can have, it gets.
                std::task::ready!(poll_flush(cx, line))?;
                return Poll::Pending;
            };
            let failed =
                |detail: &str| Poll::Ready(Err(UploadError::Body(format!("the request's body {detail}"))));
            let mut is_end = frame.is_none() || body.is_end_stream();
            let mut trailers = None;
            let out = &mut line.borrow_mut().wire.out;
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => {
                        if !self.encoder.piece(out, piece) {
                            return failed("is longer than it was said to be");
                        }
                    }
                    Err(frame) => {
                        trailers = frame.into_trailers().ok();
                        is_end = true;
                    }
                },
                Some(Err(error)) => return failed(&format!("broke off: {error}")),
                None => {}
            }
            if is_end || self.encoder.is_at_end() {
                if !self.encoder.end(out, trailers.as_ref()) {
                    return failed("is shorter than it was said to be");
                }
                self.body = None;
            }
        }
    }
}

fn poll_flush(cx: &mut Context<'_>, line: &Rc<RefCell<Line>>) -> Poll<Result<(), UploadError>> {
    line.borrow_mut().wire.poll_flush(cx).map_err(UploadError::Write)
}
