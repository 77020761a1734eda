//! One request and its answer, on a connection of HTTP/1.1 to a service.

mod upload;

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;

use crate::{
    Body, SendError, SendErrorKind, Switched,
    answer_body::AnswerBody,
    http1::{AnswerHead, Decoder, Framing, Length, encode_request, read_answer},
    line::{Line, LineRef},
    pool::Pool,
    slice::Sliced,
    wire::Wire,
};
use upload::{Upload, UploadError};

fn poll_head(
    line: &mut Line,
    cx: &mut Context<'_>,
    request: &mut Request<Body>,
) -> Poll<Result<AnswerHead, SendError>> {
    let broken = |detail: String| Err(SendError::unknown(SendErrorKind::Broken, detail));
    let wire = &mut line.wire;
    let is_to_head = *request.method() == Method::HEAD;
    loop {
        let spare = request.headers_mut();
        let (buf, seen, spans) = (&mut wire.read, &mut wire.seen, &mut wire.spans);
        let read = read_answer(buf, seen, line.limits, spans, spare, is_to_head);
        match read {
            Ok(Some(head)) => return Poll::Ready(Ok(head)),
            Ok(None) => {}
            Err(error) => return Poll::Ready(broken(format!("the answer cannot be read: {error}"))),
        }
        match ready!(wire.poll_fill(cx)) {
            Ok(0) => {
                return Poll::Ready(broken("the connection closed before an answer came".to_owned()));
            }
            Ok(_) => {}
            Err(error) => return Poll::Ready(broken(format!("the connection broke: {error}"))),
        }
    }
}

/// A request on its way, and then its answer. It is driven in place by whoever wants the answer: a future in a future would have
/// the whole request, and later the whole answer, moved once more for each level.
pub(crate) struct Exchange {
    line: LineRef,
    request: Request<Body>,
    /// What can be put back into the request while nothing of it was sent.
    whole: Option<Bytes>,
    upload: Upload,
    /// The service takes no more of the request; what it says counts all the same.
    is_cut: bool,
}

impl Exchange {
    pub(crate) fn new(line: LineRef, mut request: Request<Body>) -> Self {
        let body = std::mem::replace(request.body_mut(), Body::Empty);
        let whole = match &body {
            Body::Full(bytes) => Some(bytes.clone().unwrap_or_default()),
            Body::Empty => Some(Bytes::new()),
            _ => None,
        };
        let upload = {
            let wire = &mut line.borrow_mut().wire;
            wire.has_written = false;
            let length = length(&body);
            let (method, uri, headers) = (request.method(), request.uri(), request.headers());
            let encoder = encode_request(&mut wire.out, method, uri, headers, length);
            Upload::new(body, encoder)
        };
        Self {
            line,
            request,
            whole,
            upload,
            is_cut: false,
        }
    }

    /// The answer, whose connection goes back to the pool at the end of its body. A request of which nothing was sent comes
    /// back with the error, if it is as it was.
    pub(crate) fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        pool: Option<&Rc<Pool>>,
    ) -> Poll<Result<Response<Body>, SendError>> {
        Poll::Ready(match ready!(self.poll_answer(cx)) {
            Ok(head) => self.response(head, pool),
            Err(error) => Err(self.failed(error)),
        })
    }

    /// The answer to a request that may switch protocols, and the connection where it did.
    pub(crate) async fn switch(mut self) -> Result<(Response<Body>, Option<Switched>), SendError> {
        let head = match poll_fn(|cx| self.poll_answer(cx)).await {
            Ok(head) => head,
            Err(error) => return Err(self.failed(error)),
        };
        if head.status != StatusCode::SWITCHING_PROTOCOLS {
            return self.response(head, None).map(|response| (response, None));
        }
        drop(self.upload);
        let (response, _, _) = response(head);
        let line = Rc::try_unwrap(self.line).map_err(|_| {
            let detail = "the service switched protocols before it had the request";
            SendError::unknown(SendErrorKind::Broken, detail)
        })?;
        let Wire { stream, read, .. } = line.into_inner().wire;
        Ok((response, Some(Switched::new(read.freeze(), Sliced::new(stream)))))
    }

    /// Sends what there is to be sent, and waits for the head of the answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnswerHead, SendError>> {
        if !self.is_cut && !self.upload.is_done() {
            match self.upload.poll(cx, &self.line) {
                Poll::Ready(Err(UploadError::Write(error))) => {
                    if !self.line.borrow().has_sent() {
                        let detail = format!("the connection broke before anything was sent: {error}");
                        return Poll::Ready(Err(SendError::not_executed(SendErrorKind::Broken, detail)));
                    }
                    // A service may refuse a request before it has read it, and close. What it says counts.
                    self.is_cut = true;
                }
                Poll::Ready(Err(UploadError::Body(detail))) => {
                    return Poll::Ready(Err(SendError::unknown(SendErrorKind::Broken, detail)));
                }
                Poll::Ready(Ok(())) => self.request.headers_mut().clear(),
                Poll::Pending => {}
            }
        }
        poll_head(&mut self.line.borrow_mut(), cx, &mut self.request)
    }

    fn failed(&mut self, error: SendError) -> SendError {
        if self.line.borrow().has_sent() {
            return error;
        }
        let error = SendError::not_executed(error.kind, error.detail);
        match self.whole.take() {
            Some(bytes) => {
                let mut request = std::mem::replace(&mut self.request, Request::new(Body::Empty));
                *request.body_mut() = Body::full(bytes);
                error.with_request(request)
            }
            None => error,
        }
    }

    fn response(
        &mut self,
        mut head: AnswerHead,
        pool: Option<&Rc<Pool>>,
    ) -> Result<Response<Body>, SendError> {
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            let detail = "the service switched protocols, which nobody asked for";
            return Err(SendError::unknown(SendErrorKind::Broken, detail));
        }
        head.keeps_alive &= !self.is_cut;
        let (mut response, framing, keeps_alive) = response(head);
        let sending = self.rest().map(tokio::task::spawn_local);
        let pool = pool.filter(|_| keeps_alive);
        let mut body = AnswerBody::new(self.line.clone(), Decoder::new(framing), sending, pool);
        *response.body_mut() = match framing {
            Framing::NONE => {
                body.finish();
                Body::Empty
            }
            // A short answer is there with its head. Its connection is free before anybody has read it.
            Framing::Length(bytes) => match body.take_whole(bytes) {
                Some(bytes) => Body::Full(Some(bytes)),
                None => Body::Answer(body),
            },
            _ => Body::Answer(body),
        };
        Ok(response)
    }

    /// Sends what is left of the request where its answer began before all of it was sent.
    fn rest(&mut self) -> Option<impl Future<Output = ()> + 'static> {
        let is_left = !self.is_cut && !self.upload.is_done();
        is_left.then(|| send_rest(self.line.clone(), self.upload.take()))
    }
}

fn length(body: &Body) -> Length {
    if body.is_end_stream() {
        return Length::Empty;
    }
    body.size_hint().exact().map_or(Length::Unknown, Length::Exact)
}

fn response(head: AnswerHead) -> (Response<Body>, Framing, bool) {
    // The version is each hop's own; a service of HTTP/1.0 must not make this hop one.
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    if let Some(reason) = head.reason {
        response.extensions_mut().insert(reason);
    }
    (response, head.framing, head.keeps_alive)
}

/// Sends what is left of a request whose answer has begun.
async fn send_rest(line: LineRef, mut upload: Upload) {
    let sent = poll_fn(|cx| upload.poll(cx, &line)).await;
    if sent.is_err() {
        let line = &mut *line.borrow_mut();
        line.is_broken = true;
        if let Some(reader) = line.reader.take() {
            reader.wake();
        }
    }
}
