use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::error::Error;

/// The outcome of a write that is under way: awaited on any runtime, or waited for on a thread.
/// Dropping it does not stop the write.
#[derive(Debug)]
pub struct Pending<T>(Arc<Shared<T>>);

/// The other end. Dropped without an outcome, it says that the store was closed.
#[derive(Debug)]
pub(super) struct Promise<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

#[derive(Debug)]
enum State<T> {
    Open(Option<Waker>),
    Done(Result<T, Error>),
    Taken,
}

pub(super) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State::Open(None)),
        done: Condvar::new(),
    });
    (Promise(Arc::clone(&shared)), Pending(shared))
}

impl<T> Pending<T> {
    /// Blocks the thread until the outcome is durable. Not to be called on the writer's own thread,
    /// that is, inside a session.
    pub fn wait(self) -> Result<T, Error> {
        let mut state = self.0.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(outcome) => return outcome,
                State::Taken => return Err(Error::Closed),
                open @ State::Open(_) => *state = open,
            }
            state = self.0.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => Poll::Ready(outcome),
            State::Taken => Poll::Ready(Err(Error::Closed)),
            State::Open(_) => {
                *state = State::Open(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> Promise<T> {
    pub(super) fn complete(self, outcome: Result<T, Error>) {
        self.0.complete(outcome);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.0.complete(Err(Error::Closed));
    }
}

impl<T> Shared<T> {
    /// Only the first outcome counts.
    fn complete(&self, outcome: Result<T, Error>) {
        let waker = {
            let mut state = self.lock();
            let State::Open(waker) = &mut *state else { return };
            let waker = waker.take();
            *state = State::Done(outcome);
            waker
        };
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Every change of the state is one assignment: a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_waiting_thread_gets_the_outcome() {
        let (promise, pending) = pending();
        let waiting = std::thread::spawn(move || pending.wait());
        promise.complete(Ok(7));
        assert_eq!(waiting.join().unwrap(), Ok(7));
    }

    #[test]
    fn a_future_is_woken_once() {
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let (promise, mut pending) = pending();
        assert_eq!(Pin::new(&mut pending).poll(&mut context), Poll::Pending);
        promise.complete(Ok(7));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        assert_eq!(Pin::new(&mut pending).poll(&mut context), Poll::Ready(Ok(7)));
    }

    #[test]
    fn a_dropped_promise_is_no_success() {
        let (promise, pending) = pending::<()>();
        drop(promise);
        assert_eq!(pending.wait(), Err(Error::Closed));
    }
}
