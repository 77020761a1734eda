//! The core's coarse clock as hyper's timer.
//!
//! hyper starts a timer for every head that it reads. On the core's clock that is a slab slot and no
//! system call.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

use crate::Clock;

thread_local! {
    /// The clock of the core that this thread is. hyper wants timers that could change threads;
    /// connections never do, so a timer finds its clock here instead of holding it.
    static CLOCK: RefCell<Option<Rc<Clock>>> = const { RefCell::new(None) };
}

/// A timer for connections that are served on a thread with [`CoarseTimer::install`]ed clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoarseTimer;

impl CoarseTimer {
    pub(crate) fn install(clock: &Rc<Clock>) -> Self {
        CLOCK.with_borrow_mut(|installed| *installed = Some(clock.clone()));
        Self
    }
}

fn clock() -> Rc<Clock> {
    CLOCK.with_borrow(|clock| clock.clone().expect("a core installs its clock before it serves"))
}

impl Timer for CoarseTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let expires_at_ms = clock().now_ms() + duration.as_millis() as u64;
        Box::pin(CoarseSleep {
            expires_at_ms,
            slot: Slot::default(),
        })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(clock().coarse_now()))
    }

    fn now(&self) -> Instant {
        clock().coarse_now()
    }
}

/// Waits on the clock of the thread that polls it; nothing is registered before the first poll.
struct CoarseSleep {
    expires_at_ms: u64,
    slot: Slot,
}

/// A registered deadline, by its place in the clock. Plain data, so that it may be sent; it only means
/// something on the thread that registered it.
#[derive(Default)]
struct Slot(Option<usize>);

impl Sleep for CoarseSleep {}

impl Future for CoarseSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = clock();
        let expires_at_ms = self.expires_at_ms;
        let key = *self.slot.0.get_or_insert_with(|| clock.register(expires_at_ms));
        clock.poll_slot(key, cx)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(key) = self.0.take() {
            // At the end of a thread its clock may be gone before its connections.
            CLOCK
                .try_with(|clock| clock.borrow().as_ref().map(|clock| clock.release(key)))
                .ok();
        }
    }
}
