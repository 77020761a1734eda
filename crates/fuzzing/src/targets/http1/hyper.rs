//! The same bytes, read by hyper from memory.

use std::{
    cell::RefCell,
    convert::Infallible,
    io,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use cheops_net::fuzzing::Message;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
    service::service_fn,
};

/// Nothing takes more turns: all of it is in memory.
const TURNS_MAX: usize = 10_000;
const HEAD_MAX_BYTES: usize = 64 * 1024;

/// A connection that has sent everything already, and takes everything.
struct Memory {
    rest: Bytes,
    /// It ends then; else nothing more comes.
    ends: bool,
    /// Nothing comes before something was written: an answer that nobody asked for is none.
    is_asked: bool,
}

impl Read for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_asked || (self.rest.is_empty() && !self.ends) {
            return Poll::Pending;
        }
        let bytes = self.rest.len().min(buf.remaining());
        let piece = self.rest.split_to(bytes);
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl Write for Memory {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The requests of a connection whose client sends `input` and then waits.
pub(super) fn requests(input: &[u8]) -> Vec<Message> {
    let messages: Rc<RefCell<Vec<Message>>> = Rc::default();
    let io = Memory {
        rest: Bytes::copy_from_slice(input),
        ends: false,
        is_asked: true,
    };
    let service = service_fn(|request: Request<Incoming>| {
        let messages = messages.clone();
        async move {
            let (head, body) = request.into_parts();
            let number = messages.borrow().len();
            messages.borrow_mut().push(Message {
                first: format!("{} {}", head.method, head.uri),
                headers: head.headers,
                body: Vec::new(),
                trailers: None,
                is_whole: false,
            });
            let is_whole = read(body, |note| note(&mut messages.borrow_mut()[number])).await;
            messages.borrow_mut()[number].is_whole = is_whole;
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.max_buf_size(HEAD_MAX_BYTES);
    let mut connection = pin!(server.serve_connection(io, service));
    let mut cx = Context::from_waker(Waker::noop());
    let mut idle_turns = 0;
    for _ in 0..TURNS_MAX {
        let before = messages.borrow().clone();
        if connection.as_mut().poll(&mut cx).is_ready() {
            break;
        }
        idle_turns = if *messages.borrow() == before {
            idle_turns + 1
        } else {
            0
        };
        if idle_turns > 3 {
            break;
        }
    }
    messages.take()
}

/// The answer to a request, on a connection that ends after `input`; none where it is refused.
pub(super) fn answer(input: &[u8], method: &Method) -> Option<Message> {
    let io = Memory {
        rest: Bytes::copy_from_slice(input),
        ends: true,
        is_asked: false,
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.max_buf_size(HEAD_MAX_BYTES);
    let shaken = pin!(builder.handshake::<_, Empty<Bytes>>(io)).poll(&mut cx);
    let Poll::Ready(Ok((mut sender, connection))) = shaken else {
        return None;
    };
    let mut connection = pin!(connection);
    let request = Request::builder()
        .method(method)
        .uri("/")
        .body(Empty::new())
        .ok()?;
    let message: RefCell<Option<Message>> = RefCell::default();
    let mut reading = pin!(async {
        let Ok(response) = sender.send_request(request).await else {
            return;
        };
        let (head, body) = response.into_parts();
        *message.borrow_mut() = Some(Message {
            first: head.status.as_str().to_owned(),
            headers: head.headers,
            body: Vec::new(),
            trailers: None,
            is_whole: false,
        });
        let is_whole = read(body, |note| {
            message.borrow_mut().as_mut().map(note);
        })
        .await;
        if let Some(message) = message.borrow_mut().as_mut() {
            message.is_whole = is_whole;
        }
    });
    let mut is_over = false;
    for _ in 0..TURNS_MAX {
        if reading.as_mut().poll(&mut cx).is_ready() {
            break;
        }
        if !is_over {
            is_over = connection.as_mut().poll(&mut cx).is_ready();
        }
    }
    message.borrow().clone()
}

/// Reads a body to its end, if it comes.
async fn read(mut body: Incoming, mut note: impl FnMut(&dyn Fn(&mut Message))) -> bool {
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        match frame.into_data() {
            Ok(data) => note(&|message| message.body.extend_from_slice(&data)),
            Err(frame) => {
                let trailers: Option<HeaderMap> = frame.into_trailers().ok();
                note(&|message| message.trailers.clone_from(&trailers));
            }
        }
    }
    true
}
