//! A bounded body that can be sent again: what was read is kept up to a limit while it streams.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use crate::{Body, BoxError};

struct State {
    kept: Vec<Bytes>,
    kept_bytes: usize,
    kept_max_bytes: usize,
    /// The unread rest.
    rest: Body,
    /// The rest ended or failed, or more passed by than may be kept.
    rest_ended: bool,
    overflowed: bool,
    /// The copy that may read from the rest; an older copy ends with an error.
    current: u32,
}

/// Hands out the same body several times, one after the other.
pub struct Replay(Rc<RefCell<State>>);

impl Replay {
    pub fn new(body: Body, kept_max_bytes: usize) -> Self {
        let rest_ended = body.is_end_stream();
        Self(Rc::new(RefCell::new(State {
            kept: Vec::new(),
            kept_bytes: 0,
            kept_max_bytes,
            rest: body,
            rest_ended,
            overflowed: false,
            current: 0,
        })))
    }

    /// The body from its beginning, or `None` when its beginning was not kept.
    pub fn body(&self) -> Option<Body> {
        let mut state = self.0.borrow_mut();
        if state.overflowed {
            return None;
        }
        if state.rest_ended && state.kept.is_empty() {
            return Some(Body::Empty);
        }
        state.current += 1;
        Some(Body::other(Replayed {
            state: self.0.clone(),
            copy: state.current,
            next: 0,
        }))
    }

    /// Whether there is nothing to send, so that any number of copies can be under way at once.
    pub fn is_empty(&self) -> bool {
        let state = self.0.borrow();
        state.rest_ended && state.kept.is_empty() && !state.overflowed
    }

    /// Whether the whole body can still be sent.
    pub fn is_whole(&self) -> bool {
        !self.0.borrow().overflowed
    }
}

/// One copy of a [`Replay`]'s body.
struct Replayed {
    state: Rc<RefCell<State>>,
    copy: u32,
    /// The next kept piece to hand out.
    next: usize,
}

impl http_body::Body for Replayed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let mut state = this.state.borrow_mut();
        if state.current != this.copy {
            return Poll::Ready(Some(Err("the body is being sent to another site".into())));
        }
        if let Some(bytes) = state.kept.get(this.next) {
            this.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(bytes.clone()))));
        }
        if state.rest_ended {
            return Poll::Ready(None);
        }
        let frame = std::task::ready!(Pin::new(&mut state.rest).poll_frame(cx));
        match &frame {
            None => state.rest_ended = true,
            Some(Ok(frame)) => {
                if let Some(bytes) = frame.data_ref() {
                    this.next += 1;
                    state.keep(bytes.clone());
                } else {
                    // Trailers are not kept: after them the body cannot be sent again.
                    state.overflow();
                }
            }
            Some(Err(_)) => state.overflow(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state.borrow();
        self.next >= state.kept.len() && (state.rest_ended || state.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.state.borrow();
        let ahead: u64 = state
            .kept
            .get(self.next..)
            .unwrap_or_default()
            .iter()
            .map(|b| b.len() as u64)
            .sum();
        if state.rest_ended {
            return SizeHint::with_exact(ahead);
        }
        let mut hint = SizeHint::new();
        let rest = state.rest.size_hint();
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }
}

impl State {
    fn keep(&mut self, bytes: Bytes) {
        if self.overflowed {
            return;
        }
        self.kept_bytes += bytes.len();
        if self.kept_bytes > self.kept_max_bytes {
            self.overflow();
        } else {
            self.kept.push(bytes);
        }
    }

    /// Frees what was kept. Only the current copy is alive then, and it is past all of it.
    fn overflow(&mut self) {
        self.overflowed = true;
        self.kept = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn collect(body: Body) -> Result<Bytes, BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { Ok(body.collect().await?.to_bytes()) })
    }

    #[test]
    fn a_kept_body_is_sent_again() {
        let replay = Replay::new(Body::full("hello"), 5);
        assert_eq!(collect(replay.body().unwrap()).unwrap(), "hello");
        assert_eq!(collect(replay.body().unwrap()).unwrap(), "hello");
        assert!(replay.is_whole());
    }

    #[test]
    fn an_older_copy_cannot_steal_from_a_newer_one() {
        let replay = Replay::new(Body::full("hello"), 5);
        let older = replay.body().unwrap();
        let newer = replay.body().unwrap();
        assert!(collect(older).is_err());
        assert_eq!(collect(newer).unwrap(), "hello");
    }

    #[test]
    fn too_long_a_body_is_sent_once() {
        let replay = Replay::new(Body::full("hello"), 4);
        assert_eq!(collect(replay.body().unwrap()).unwrap(), "hello");
        assert!(replay.body().is_none());
    }
}
