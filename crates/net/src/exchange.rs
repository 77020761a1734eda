//! One request and its answer, on a connection of HTTP/1.1 to a service.

mod upload;

use std::{
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
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

/// The answer to a request, and its connection.
pub(crate) struct Answered {
    head: AnswerHead,
    line: LineRef,
    /// What is left of the request: its answer began before it was sent.
    upload: Option<Upload>,
}

fn poll_head(
    line: &mut Line,
    cx: &mut Context<'_>,
    request: &mut http::request::Parts,
) -> Poll<Result<AnswerHead, SendError>> {
    let broken = |detail: String| Err(SendError::unknown(SendErrorKind::Broken, detail));
    let wire = &mut line.wire;
    loop {
        let read = read_answer(
            &mut wire.read,
            &mut wire.seen,
            line.limits,
            &mut request.headers,
            &request.method,
        );
        match read {
            Ok(Some(head)) => return Poll::Ready(Ok(head)),
            Ok(None) => {}
            Err(error) => return Poll::Ready(broken(format!("the answer cannot be read: {error}"))),
        }
        match std::task::ready!(wire.poll_fill(cx)) {
            Ok(0) => {
                return Poll::Ready(broken("the connection closed before an answer came".to_owned()));
            }
            Ok(_) => {}
            Err(error) => return Poll::Ready(broken(format!("the connection broke: {error}"))),
        }
    }
}

/// Sends a request and waits for the head of its answer. A request of which nothing was sent comes back with the error,
/// if it is as it was.
pub(crate) async fn ask(line: LineRef, request: Request<Body>) -> Result<Answered, SendError> {
    let (mut request, body) = request.into_parts();
    // What is there as a whole can be put back.
    let whole = match &body {
        Body::Full(bytes) => Some(bytes.clone()),
        Body::Empty => Some(None),
        _ => None,
    };
    let mut upload = {
        let line = &mut *line.borrow_mut();
        line.wire.has_written = false;
        let length = length(&body);
        let encoder = encode_request(
            &mut line.wire.out,
            &request.method,
            &request.uri,
            &request.headers,
            length,
        );
        Upload::new(body, encoder)
    };
    let mut write_error: Option<io::Error> = None;
    let answer = poll_fn(|cx| {
        if write_error.is_none() && !upload.is_done() {
            match upload.poll(cx, &line) {
                Poll::Ready(Err(UploadError::Write(error))) => {
                    if !line.borrow().has_sent() {
                        let detail = format!("the connection broke before anything was sent: {error}");
                        return Poll::Ready(Err(SendError::not_executed(SendErrorKind::Broken, detail)));
                    }
                    // A service may refuse a request before it has read it, and close. What it says counts.
                    write_error = Some(error);
                }
                Poll::Ready(Err(UploadError::Body(detail))) => {
                    return Poll::Ready(Err(SendError::unknown(SendErrorKind::Broken, detail)));
                }
                Poll::Ready(Ok(())) => request.headers.clear(),
                Poll::Pending => {}
            }
        }
        poll_head(&mut line.borrow_mut(), cx, &mut request)
    })
    .await;
    match answer {
        Ok(mut head) => {
            head.keeps_alive &= write_error.is_none();
            Ok(Answered {
                head,
                upload: (write_error.is_none() && !upload.is_done()).then_some(upload),
                line,
            })
        }
        Err(error) if line.borrow().has_sent() => Err(error),
        Err(error) => {
            let error = SendError::not_executed(error.kind, error.detail);
            Err(match whole {
                Some(bytes) => {
                    let body = bytes.map_or(Body::Empty, Body::full);
                    error.with_request(Request::from_parts(request, body))
                }
                None => error,
            })
        }
    }
}

fn length(body: &Body) -> Length {
    if body.is_end_stream() {
        return Length::Empty;
    }
    body.size_hint().exact().map_or(Length::Unknown, Length::Exact)
}

impl Answered {
    /// The answer, whose connection goes back to the pool at the end of its body.
    pub(crate) fn response(self, pool: Option<&Rc<Pool>>) -> Result<Response<Body>, SendError> {
        if self.head.status == StatusCode::SWITCHING_PROTOCOLS {
            let detail = "the service switched protocols, which nobody asked for";
            return Err(SendError::unknown(SendErrorKind::Broken, detail));
        }
        let Self { head, line, upload } = self;
        let (mut response, framing, keeps_alive) = response(head);
        let sending = upload.map(|upload| tokio::task::spawn_local(send_rest(line.clone(), upload)));
        let pool = pool.filter(|_| keeps_alive);
        let mut body = AnswerBody::new(line, Decoder::new(framing), sending, pool);
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

    /// The answer to a request that may switch protocols, and the connection where it did.
    pub(crate) fn switch(self) -> Result<(Response<Body>, Option<Switched>), SendError> {
        if self.head.status != StatusCode::SWITCHING_PROTOCOLS {
            return self.response(None).map(|response| (response, None));
        }
        let (response, _, _) = response(self.head);
        let line = Rc::try_unwrap(self.line).map_err(|_| {
            let detail = "the service switched protocols before it had the request";
            SendError::unknown(SendErrorKind::Broken, detail)
        })?;
        let Wire { stream, read, .. } = line.into_inner().wire;
        Ok((response, Some(Switched::new(read.freeze(), Sliced::new(stream)))))
    }
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
