//! The requests of one connection of HTTP/1.1, one after the other, on the connection's own task.
//!
//! ```text
//! read a head ─▶ Handler::handle ─▶ write the answer ─┐
//!      ▲            reads the body, when it wants it   │
//!      └───────────────────────────────────────────────┘
//! ```

mod head_timer;

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;

use super::{Connection, Handler};
use crate::{
    Body, Received, Switched,
    http1::{
        AnswerForm, DateLine, Decoder, Encoder, Framing, HeadError, HeadLimits, Length, Reason, RequestHead,
        encode_answer, read_request,
    },
    request_body::{ClientSide, Inbound, RequestBody},
    wire::Wire,
};
use head_timer::HeadTimer;

/// The time of day, for the date of answers that have none.
pub(crate) struct Dates {
    unix_s: fn() -> u64,
    line: RefCell<DateLine>,
}

impl Dates {
    pub(crate) fn new(unix_s: fn() -> u64) -> Rc<Self> {
        Rc::new(Self {
            unix_s,
            line: RefCell::default(),
        })
    }
}

/// Why a connection ends before its client wanted it to.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("{0}")]
    Head(#[from] HeadError),
    #[error("no head came in time")]
    Silent,
    #[error("too much of unfinished heads is in memory")]
    Heads,
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("the client went away")]
    Gone,
    #[error("the answer broke off")]
    Answer,
}

/// A request, and what its answer depends on.
type Asked = (AnswerForm, Request<Received>);

/// What comes after an answer.
enum After {
    Next,
    Close,
    Switch,
}

pub(super) struct Http1<'a, H: Handler> {
    pub(super) handler: &'a Rc<H>,
    pub(super) connection: &'a Rc<Connection<H::Tag>>,
    pub(super) limits: HeadLimits,
    pub(super) head_timeout_ms: u64,
    pub(super) dates: &'a Dates,
    /// The connection ends after its current request.
    pub(super) is_closing: &'a Cell<bool>,
    inbound: Rc<RefCell<Inbound>>,
    timer: RefCell<HeadTimer>,
}

impl<'a, H: Handler> Http1<'a, H> {
    pub(super) fn new(
        wire: Wire<ClientSide>,
        handler: &'a Rc<H>,
        connection: &'a Rc<Connection<H::Tag>>,
        limits: HeadLimits,
        head_timeout_ms: u64,
        dates: &'a Dates,
        is_closing: &'a Cell<bool>,
    ) -> Self {
        Self {
            handler,
            connection,
            limits,
            head_timeout_ms,
            dates,
            is_closing,
            inbound: Rc::new(RefCell::new(Inbound::new(wire))),
            timer: RefCell::default(),
        }
    }

    /// Answers requests until the connection ends.
    pub(super) async fn run(self) -> Result<(), End> {
        loop {
            self.timer.borrow_mut().restart(&self.connection.clock);
            let (asked, request) = match poll_fn(|cx| self.poll_request(cx)).await {
                Ok(Some(asked)) => asked,
                Ok(None) => break,
                Err(End::Head(error)) => {
                    self.refuse(error).await?;
                    self.shut_down().await;
                    return Err(End::Head(error));
                }
                Err(end) => return Err(end),
            };
            self.connection.begin();
            let answered = {
                // Driven here and not by a task of its own: nobody else has to be woken for it.
                let mut answering = pin!(self.handler.clone().handle(self.connection.clone(), request));
                poll_fn(|cx| match answering.as_mut().poll(cx) {
                    Poll::Ready(Ok(response)) => Poll::Ready(Some(response)),
                    Poll::Pending => self.poll_gone(cx).map(|()| None),
                })
                .await
            };
            let Some(mut response) = answered else {
                return Err(End::Gone);
            };
            match self.answer(&mut response, asked).await? {
                After::Next => self.inbound.borrow_mut().wire.rest(),
                After::Close => break,
                After::Switch => {
                    self.switch();
                    return Ok(());
                }
            }
        }
        self.shut_down().await;
        Ok(())
    }

    // === The request ===

    /// The next request; none where the client, or this side, ends the connection between two.
    fn poll_request(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Asked>, End>> {
        let flow = &self.connection.flow;
        let inbound = &mut *self.inbound.borrow_mut();
        loop {
            let wire = &mut inbound.wire;
            let (buf, seen) = (&mut wire.read, &mut wire.seen);
            let read = read_request(buf, seen, self.limits, &mut wire.spans, &mut wire.spare);
            if let Some(head) = read? {
                flow.end_head();
                let body = self.body(inbound, head.framing, head.expects_continue);
                return Poll::Ready(Ok(Some(request(head, body))));
            }
            if self.is_closing.get() && wire.read.is_empty() {
                return Poll::Ready(Ok(None));
            }
            if !flow.may_hold(wire.read.len()) {
                return Poll::Ready(Err(End::Heads));
            }
            match wire.poll_fill(cx) {
                // Empty lines are no head that was begun.
                Poll::Ready(Ok(0)) if wire.read.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(End::Gone)),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Pending => return self.poll_silent(cx).map(|()| Err(End::Silent)),
            }
        }
    }

    fn poll_silent(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.timer.borrow_mut();
        timer.poll(cx, self.head_timeout_ms, &self.connection.clock)
    }

    /// The body behind a head. A short one is there with its head, and nobody has to come back for it.
    fn body(&self, inbound: &mut Inbound, framing: Framing, expects_continue: bool) -> Received {
        inbound.number += 1;
        inbound.owner = None;
        let read = &mut inbound.wire.read;
        if let Framing::Length(bytes) = framing
            && let Ok(bytes) = usize::try_from(bytes)
            && read.len() >= bytes
        {
            inbound.decoder = Decoder::new(Framing::NONE);
            inbound.waits_for_continue = false;
            return match bytes {
                0 => Received::Empty,
                _ => Received::Whole(read.split_to(bytes).freeze()),
            };
        }
        inbound.decoder = Decoder::new(framing);
        inbound.waits_for_continue = expects_continue;
        Received::Http1(RequestBody::of(&self.inbound, inbound.number))
    }

    /// Ready when the client has gone away, or its connection broke. Not noticed while it sends something else.
    fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let inbound = &mut *self.inbound.borrow_mut();
        if !inbound.decoder.is_at_end() {
            // Whoever has the body reads the connection.
            inbound.owner = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !inbound.wire.read.is_empty() {
            return Poll::Pending;
        }
        match ready!(inbound.wire.poll_fill(cx)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            Ok(_) => Poll::Pending,
        }
    }

    // === The answer ===

    async fn answer(&self, response: &mut Response<Body>, asked: AnswerForm) -> Result<After, End> {
        let is_switch = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        self.inbound.borrow_mut().begin_answer();
        let form = AnswerForm {
            keeps_alive: asked.keeps_alive && !self.is_closing.get() && self.may_be_read().await,
            ..asked
        };
        let (mut encoder, keeps_alive) = self.begin_answer(response, form);
        let written = poll_fn(|cx| self.poll_write(cx, response.body_mut(), &mut encoder)).await;
        if let Err(end) = written {
            // What the client can have, it gets; it sees that it is not all.
            let _ = poll_fn(|cx| Poll::Ready(self.inbound.borrow_mut().wire.poll_flush(cx))).await;
            return Err(end);
        }
        // Whoever reads the request for it is done.
        *response.body_mut() = Body::Empty;
        if is_switch {
            return Ok(After::Switch);
        }
        if !keeps_alive || !self.is_read().await {
            return Ok(After::Close);
        }
        Ok(After::Next)
    }

    /// Puts an answer's head where it waits to be written.
    fn begin_answer(&self, response: &mut Response<Body>, form: AnswerForm) -> (Encoder, bool) {
        let body = response.body();
        let length = match body.size_hint().exact() {
            _ if body.is_end_stream() => Length::Empty,
            Some(bytes) => Length::Exact(bytes),
            None => Length::Unknown,
        };
        let wire = &mut self.inbound.borrow_mut().wire;
        let date = |out: &mut crate::http1::Output| {
            out.push(self.dates.line.borrow_mut().at((self.dates.unix_s)()));
        };
        let reason = response.extensions().get::<Reason>();
        let (status, headers) = (response.status(), response.headers());
        let encoded = encode_answer(&mut wire.out, status, reason, headers, length, form, date);
        response.headers_mut().clear();
        wire.spare = std::mem::take(response.headers_mut());
        encoded
    }

    /// Writes what is left of an answer. What is short leaves together with the head.
    fn poll_write(
        &self,
        cx: &mut Context<'_>,
        body: &mut Body,
        encoder: &mut Encoder,
    ) -> Poll<Result<(), End>> {
        while !encoder.is_at_end() {
            if self.inbound.borrow().wire.out.is_full() {
                ready!(self.poll_flush(cx))?;
            }
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                // What the client can have, it gets.
                ready!(self.poll_flush(cx))?;
                return self.poll_gone(cx).map(|()| Err(End::Gone));
            };
            let mut is_end = frame.is_none() || body.is_end_stream();
            let mut trailers: Option<HeaderMap> = None;
            let out = &mut self.inbound.borrow_mut().wire.out;
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => {
                        if !encoder.piece(out, piece) {
                            return Poll::Ready(Err(End::Answer));
                        }
                    }
                    Err(frame) => {
                        trailers = frame.into_trailers().ok();
                        is_end = true;
                    }
                },
                Some(Err(error)) => {
                    tracing::debug!(%error, "an answer broke off");
                    return Poll::Ready(Err(End::Answer));
                }
                None => {}
            }
            if is_end && !encoder.end(out, trailers.as_ref()) {
                return Poll::Ready(Err(End::Answer));
            }
        }
        self.poll_flush(cx)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        let flushed = self.inbound.borrow_mut().wire.poll_flush(cx);
        match flushed {
            Poll::Ready(done) => Poll::Ready(done.map_err(End::from)),
            Poll::Pending => self.poll_gone(cx).map(|()| Err(End::Gone)),
        }
    }

    /// Says what is wrong with a head that cannot be read.
    async fn refuse(&self, error: HeadError) -> Result<(), End> {
        let status = match error {
            HeadError::Malformed(_) => StatusCode::BAD_REQUEST,
            HeadError::TooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            HeadError::TargetTooLong => StatusCode::URI_TOO_LONG,
        };
        let mut response = Response::new(Body::Empty);
        *response.status_mut() = status;
        let asked = AnswerForm {
            is_http_11: true,
            is_head: false,
            takes_trailers: false,
            keeps_alive: false,
        };
        self.answer(&mut response, asked).await.map(drop)
    }

    // === Between two requests ===

    /// Whether the request's body has come to its end, or may still do so: somebody is reading it.
    async fn may_be_read(&self) -> bool {
        let (is_read, has_failed) = {
            let inbound = self.inbound.borrow();
            (inbound.decoder.is_at_end(), inbound.has_failed)
        };
        is_read || (!has_failed && (Rc::strong_count(&self.inbound) > 1 || self.is_drained().await))
    }

    /// Waits for the end of the request's body, for as long as somebody reads it; false where it does not come.
    async fn is_read(&self) -> bool {
        if self.inbound.borrow().decoder.is_at_end() {
            return true;
        }
        poll_fn(|cx| {
            let is_held = Rc::strong_count(&self.inbound) > 1;
            let inbound = &mut *self.inbound.borrow_mut();
            if inbound.decoder.is_at_end() || inbound.has_failed || !is_held {
                return Poll::Ready(());
            }
            inbound.owner = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        self.is_drained().await
    }

    /// Takes what has arrived of a body that nobody wants; whether that is all of it.
    async fn is_drained(&self) -> bool {
        let mut body = RequestBody::new(&self.inbound);
        poll_fn(|cx| {
            loop {
                if body.is_end_stream() {
                    return Poll::Ready(true);
                }
                match body.poll_frame(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(None) => return Poll::Ready(true),
                    Poll::Ready(Some(Err(_))) | Poll::Pending => return Poll::Ready(false),
                }
            }
        })
        .await
    }

    /// Hands the connection to whoever asked for the switch.
    fn switch(self) {
        let Some(tell) = self.connection.switch.take() else {
            return;
        };
        if let Ok(inbound) = Rc::try_unwrap(self.inbound) {
            let Wire { stream, read, .. } = inbound.into_inner().wire;
            // Nobody may be waiting any more.
            let _ = tell.send(Switched::new(read.freeze(), stream));
        }
    }

    async fn shut_down(&self) {
        let _ = poll_fn(|cx| {
            let inbound = &mut *self.inbound.borrow_mut();
            tokio::io::AsyncWrite::poll_shutdown(Pin::new(&mut inbound.wire.stream), cx)
        })
        .await;
    }
}

/// A request with its body, and what its answer depends on.
fn request(head: RequestHead, body: Received) -> Asked {
    let asked = AnswerForm {
        is_http_11: head.version == Version::HTTP_11,
        is_head: head.method == Method::HEAD,
        takes_trailers: head.takes_trailers,
        keeps_alive: head.keeps_alive,
    };
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers;
    (asked, request)
}
