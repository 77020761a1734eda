//! Idle HTTP/1.1 connections to one service, on one core.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::{Rc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use crate::{Clock, line::LineRef};

/// A connection that waited longer than this may just be closing on the other side.
const SUSPECT_AFTER_MS: u64 = 1_000;
/// Idle connections are dropped after this time.
const IDLE_MAX_MS: u64 = 60_000;
/// How often those that wait are looked at, while there are any: who closes a connection that nobody uses must not keep a
/// file of ours.
const LOOK_EVERY: Duration = Duration::from_secs(5);

struct Idle {
    line: LineRef,
    since_ms: u64,
}

/// A connection taken from the pool.
pub(crate) struct Taken {
    pub(crate) line: LineRef,
    /// It waited so long that its other end may be closing it right now.
    pub(crate) is_suspect: bool,
}

pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
    idle_max: usize,
    clock: Rc<Clock>,
    is_looked_after: Cell<bool>,
}

impl Pool {
    pub(crate) fn new(idle_max: usize, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::default(),
            idle_max,
            clock,
            is_looked_after: Cell::new(false),
        })
    }

    /// The connection that was used last: it is the least likely to be stale. Those that the other side has closed are
    /// dropped.
    pub(crate) fn take(&self) -> impl Future<Output = Option<Taken>> {
        poll_fn(|cx| {
            loop {
                let Some(Idle { line, since_ms }) = self.idle.borrow_mut().pop() else {
                    return Poll::Ready(None);
                };
                let is_quiet = line.borrow_mut().is_quiet(cx);
                if is_quiet {
                    let is_suspect = self.clock.now_ms().saturating_sub(since_ms) > SUSPECT_AFTER_MS;
                    return Poll::Ready(Some(Taken { line, is_suspect }));
                }
            }
        })
    }

    /// Takes a connection back whose last answer was read to its end.
    pub(crate) fn put(self: &Rc<Self>, line: LineRef) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.idle_max {
            cheops_types::Limit::UpstreamIdle.hit();
            return;
        }
        idle.push(Idle {
            line,
            since_ms: self.clock.now_ms(),
        });
        if !self.is_looked_after.replace(true) {
            tokio::task::spawn_local(look_after(Rc::downgrade(self)));
        }
    }

    /// Drops what nobody will use; false when nothing is left.
    fn tidy(&self, cx: &mut Context<'_>) -> bool {
        let now_ms = self.clock.now_ms();
        let mut idle = self.idle.borrow_mut();
        idle.retain(|Idle { line, since_ms }| {
            now_ms.saturating_sub(*since_ms) <= IDLE_MAX_MS && line.borrow_mut().is_quiet(cx)
        });
        !idle.is_empty()
    }
}

/// Tidies a pool for as long as something lies in it.
async fn look_after(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        if !poll_fn(|cx| Poll::Ready(pool.tidy(cx))).await {
            pool.is_looked_after.set(false);
            return;
        }
    }
}
