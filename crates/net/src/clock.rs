//! Coarse deadlines: one sweep per core instead of one timer per request.
//!
//! A deadline fires at most [`TICK_MS`] late. Registering one costs a slab slot, no system call and
//! no timer wheel.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    pin::{Pin, pin},
    rc::Rc,
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use slab::Slab;

use crate::Progress;

const TICK_MS: u64 = 20;

/// The answer of a future that ran out of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

struct Slot {
    expires_at_ms: u64,
    waker: Option<Waker>,
}

/// One core's clock. [`Clock::sweep`] must run as a local task for deadlines to fire.
pub struct Clock {
    start: Instant,
    now_ms: Cell<u64>,
    slots: RefCell<Slab<Slot>>,
    /// No deadline is earlier than this, so that a sweep before it looks at none of them.
    earliest_ms: Cell<u64>,
    /// Wakes the sweep when the first deadline is registered, so that an idle core sleeps.
    sweeper: RefCell<Option<Waker>>,
}

impl Clock {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            start: Instant::now(),
            now_ms: Cell::new(0),
            slots: RefCell::default(),
            earliest_ms: Cell::new(u64::MAX),
            sweeper: RefCell::default(),
        })
    }

    /// Milliseconds since the core started, as of the last sweep or registration on an idle core.
    pub fn now_ms(&self) -> u64 {
        if self.slots.borrow().is_empty() {
            self.refresh();
        }
        self.now_ms.get()
    }

    fn refresh(&self) {
        self.now_ms.set(self.start.elapsed().as_millis() as u64);
    }

    /// Like [`Clock::now_ms`], as a point in time.
    pub(crate) fn coarse_now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms())
    }

    pub fn deadline(self: &Rc<Self>, after_ms: u64) -> Deadline {
        let key = self.register(self.now_ms() + after_ms);
        Deadline {
            clock: self.clone(),
            key,
        }
    }

    pub(crate) fn register(&self, expires_at_ms: u64) -> usize {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty()
            && let Some(sweeper) = self.sweeper.borrow_mut().take()
        {
            sweeper.wake();
        }
        self.earliest_ms.set(self.earliest_ms.get().min(expires_at_ms));
        slots.insert(Slot {
            expires_at_ms,
            waker: None,
        })
    }

    pub(crate) fn release(&self, key: usize) {
        self.slots.borrow_mut().try_remove(key);
    }

    pub(crate) fn poll_slot(&self, key: usize, cx: &mut Context<'_>) -> Poll<()> {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(key) else {
            return Poll::Ready(());
        };
        if slot.expires_at_ms <= self.now_ms.get() {
            return Poll::Ready(());
        }
        if !slot
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            slot.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Runs `future` for at most `within_ms`.
    pub async fn timeout<F: Future>(
        self: &Rc<Self>,
        within_ms: u64,
        future: F,
    ) -> Result<F::Output, Expired> {
        self.timeout_idle(within_ms, None, pin!(future)).await
    }

    /// Runs `future` until nothing happened for `within_ms`: neither it completed nor its body moved.
    pub fn timeout_idle<F: Future + Unpin>(
        self: &Rc<Self>,
        within_ms: u64,
        progress: Option<Progress>,
        future: F,
    ) -> Within<F> {
        Within {
            deadline: self.deadline(within_ms),
            time_ms: within_ms,
            progress,
            future,
        }
    }

    /// Fires deadlines, for ever.
    pub async fn sweep(self: Rc<Self>) {
        loop {
            std::future::poll_fn(|cx| {
                if self.slots.borrow().is_empty() {
                    *self.sweeper.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            self.refresh();
            self.fire();
        }
    }

    fn fire(&self) {
        let now_ms = self.now_ms.get();
        if now_ms < self.earliest_ms.get() {
            return;
        }
        let mut earliest_ms = u64::MAX;
        for (_, slot) in self.slots.borrow_mut().iter_mut() {
            if slot.expires_at_ms > now_ms {
                earliest_ms = earliest_ms.min(slot.expires_at_ms);
            } else if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        self.earliest_ms.set(earliest_ms);
    }
}

/// A future with a time limit. One type, not an `async fn` in another: each of them would move what comes out once more, and
/// every request passes here.
pub struct Within<F> {
    future: F,
    deadline: Deadline,
    time_ms: u64,
    /// Of the body whose moves count.
    progress: Option<Progress>,
}

impl<F: Future + Unpin> Future for Within<F> {
    type Output = Result<F::Output, Expired>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = Pin::new(&mut self.future).poll(cx) {
            return Poll::Ready(Ok(output));
        }
        loop {
            ready!(Pin::new(&mut self.deadline).poll(cx));
            let still = self.progress.as_ref().and_then(Progress::still_for);
            let still_ms = still.map_or(u64::MAX, |still| still.as_millis() as u64);
            if still_ms >= self.time_ms {
                return Poll::Ready(Err(Expired));
            }
            self.deadline = self.deadline.clock.deadline(self.time_ms - still_ms);
        }
    }
}

/// Completes when its time is over; dropping it frees its slot.
pub struct Deadline {
    clock: Rc<Clock>,
    key: usize,
}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.clock.poll_slot(self.key, cx)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.clock.release(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_moves_has_time_from_its_last_move() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = Clock::new();
            tokio::task::spawn_local(clock.clone().sweep());
            let (mut body, progress) = crate::Body::full(vec![0; 100_000]).watch();
            let start = Instant::now();
            let moving = async {
                tokio::time::sleep(Duration::from_millis(80)).await;
                http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
                std::future::pending::<()>().await;
            };
            assert_eq!(
                clock.timeout_idle(100, progress, pin!(moving)).await,
                Err(Expired)
            );
            let took = start.elapsed();
            assert!(took >= Duration::from_millis(175), "{took:?}");
        });
    }

    #[test]
    fn fires_not_early_and_frees_its_slot() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let clock = Clock::new();
            tokio::task::spawn_local(clock.clone().sweep());
            let start = Instant::now();
            assert_eq!(
                clock.timeout(60, std::future::pending::<()>()).await,
                Err(Expired)
            );
            assert!(
                start.elapsed() >= Duration::from_millis(55),
                "{:?}",
                start.elapsed()
            );
            assert_eq!(clock.timeout(60, async { 7 }).await, Ok(7));
            assert!(clock.slots.borrow().is_empty());
        });
    }
}
