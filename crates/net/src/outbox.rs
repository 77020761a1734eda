//! Answers on their way to HTTP/2 clients.
//!
//! A client of HTTP/2 may read its connection and still take nothing of one answer, by its window. Nobody
//! polls the body of such an answer, so it cannot end itself: one look per core at all of them ends those
//! whose clients are too slow, and with them what they hold of the application.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use slab::Slab;

use crate::{
    Body, BoxError, Clock,
    pace::{Pace, PaceOptions},
};

/// How often all answers are looked at, while there are any.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is on its way from one core.
pub(crate) struct Outbox {
    clock: Rc<Clock>,
    open: RefCell<Slab<Rc<Sent>>>,
    /// Wakes the look when the first answer comes, so that an idle core sleeps.
    looker: RefCell<Option<Waker>>,
}

/// One answer.
struct Sent {
    /// None once the client was too slow.
    body: RefCell<Option<Body>>,
    /// A piece was handed out, and no further one was asked for.
    is_owed: Cell<bool>,
    /// The length of that piece: it is taken when a further one is asked for.
    handed_out_bytes: Cell<u64>,
    taken_bytes: Cell<u64>,
    pace: RefCell<Pace>,
    options: PaceOptions,
}

impl Outbox {
    pub(crate) fn new(clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            clock,
            open: RefCell::default(),
            looker: RefCell::default(),
        })
    }

    /// Ends `body` when its client is too slow.
    pub(crate) fn send(self: &Rc<Self>, body: Body, options: PaceOptions) -> Outgoing {
        let sent = Rc::new(Sent {
            body: RefCell::new(Some(body)),
            // A client that gives no window at all never has the first piece asked for.
            is_owed: Cell::new(true),
            handed_out_bytes: Cell::new(0),
            taken_bytes: Cell::new(0),
            pace: RefCell::new(Pace::by_window()),
            options,
        });
        let key = self.open.borrow_mut().insert(sent.clone());
        if let Some(looker) = self.looker.borrow_mut().take() {
            looker.wake();
        }
        Outgoing {
            sent,
            outbox: self.clone(),
            key,
        }
    }

    /// Looks at all answers, for ever.
    pub(crate) async fn look(self: Rc<Self>) {
        loop {
            std::future::poll_fn(|cx| {
                if self.open.borrow().is_empty() {
                    *self.looker.borrow_mut() = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            tokio::time::sleep(LOOK_EVERY).await;
            let now_ms = self.clock.now_ms();
            // Dropped after the look: what a body does at its end is its own affair.
            let ended: Vec<Body> = {
                let open = self.open.borrow();
                open.iter()
                    .filter_map(|(_, sent)| sent.end_if_slow(now_ms))
                    .collect()
            };
            drop(ended);
        }
    }
}

impl Sent {
    fn end_if_slow(&self, now_ms: u64) -> Option<Body> {
        let mut pace = self.pace.borrow_mut();
        let limit = pace.look(now_ms, self.is_owed.get(), self.taken_bytes.get(), &self.options)?;
        let body = self.body.borrow_mut().take()?;
        limit.hit();
        Some(body)
    }
}

/// The body that HTTP/2 is given.
pub(crate) struct Outgoing {
    sent: Rc<Sent>,
    outbox: Rc<Outbox>,
    key: usize,
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let sent = &self.sent;
        let mut body = sent.body.borrow_mut();
        let Some(body) = body.as_mut() else {
            return Poll::Ready(Some(Err("the client took the answer too slowly".into())));
        };
        sent.is_owed.set(false);
        sent.taken_bytes
            .set(sent.taken_bytes.get() + sent.handed_out_bytes.take());
        let frame = Pin::new(body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            sent.is_owed.set(true);
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            sent.handed_out_bytes.set(bytes);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.sent.body.borrow().as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.sent.body.borrow();
        body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.outbox.open.borrow_mut().remove(self.key);
    }
}
