//! A future that is looked at only when something has woken it.
//!
//! What a core waits for itself is polled first in every round, so that a command comes before the requests that arrive after it:
//! once a listener is told to close, nothing more is answered. In nearly all rounds there is no command, and to find that out by
//! polling costs as much as to parse a head's first line.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

struct Woken {
    is_woken: AtomicBool,
    whole: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.whole.wake_by_ref();
    }
}

/// Polls `future` only when it was woken itself, however often what it is a part of is.
pub(crate) async fn sparing<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut woken: Option<(Arc<Woken>, Waker)> = None;
    poll_fn(|cx| {
        // Who is to be woken may change. Then whatever the future waits for must learn it.
        let current = woken
            .take()
            .filter(|(woken, _)| woken.whole.will_wake(cx.waker()));
        let (state, waker) = woken.insert(current.unwrap_or_else(|| {
            let state = Arc::new(Woken {
                is_woken: AtomicBool::new(true),
                whole: cx.waker().clone(),
            });
            (state.clone(), state.into())
        }));
        if !state.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::atomic::AtomicUsize};

    use tokio::sync::mpsc;

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (count.clone(), count.into())
    }

    #[test]
    fn it_is_polled_when_it_was_woken_and_else_not() {
        let (send, mut receive) = mpsc::unbounded_channel::<u32>();
        let polls = Cell::new(0);
        let mut inner = pin!(async move { receive.recv().await });
        let mut whole = pin!(sparing(poll_fn(|cx| {
            polls.set(polls.get() + 1);
            inner.as_mut().poll(cx)
        })));
        let (_, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..10 {
            assert!(whole.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(polls.get(), 1);
        send.send(7).unwrap();
        assert_eq!(whole.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
        assert_eq!(polls.get(), 2);
    }

    #[test]
    fn who_asks_last_is_woken() {
        let (send, mut receive) = mpsc::unbounded_channel::<u32>();
        let mut whole = pin!(sparing(receive.recv()));
        let (first, last) = (counting(), counting());
        for (_, waker) in [&first, &last] {
            let polled = whole.as_mut().poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
        }
        send.send(7).unwrap();
        assert_eq!(
            (first.0.0.load(Ordering::SeqCst), last.0.0.load(Ordering::SeqCst)),
            (0, 1)
        );
    }
}
