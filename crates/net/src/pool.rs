//! Idle HTTP/1.1 connections to one service, on one core.

use std::{cell::RefCell, rc::Rc};

use hyper::client::conn::http1::SendRequest;

use crate::{Body, Clock};

/// A connection that waited longer than this may just be closing on the other side.
const SUSPECT_AFTER_MS: u64 = 1_000;
/// Idle connections are dropped after this time.
const IDLE_MAX_MS: u64 = 60_000;

struct Idle {
    sender: SendRequest<Body>,
    since_ms: u64,
}

/// A connection taken from the pool.
pub(crate) struct Taken {
    pub(crate) sender: SendRequest<Body>,
    /// It waited so long that its other end may be closing it right now.
    pub(crate) is_suspect: bool,
}

pub(crate) struct Pool {
    idle: RefCell<Vec<Idle>>,
    idle_max: usize,
    clock: Rc<Clock>,
}

impl Pool {
    pub(crate) fn new(idle_max: usize, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::default(),
            idle_max,
            clock,
        })
    }

    /// The connection that was used last: it is the least likely to be stale.
    pub(crate) async fn take(&self) -> Option<Taken> {
        loop {
            let mut idle = self.idle.borrow_mut().pop()?;
            let is_suspect = self.clock.now_ms().saturating_sub(idle.since_ms) > SUSPECT_AFTER_MS;
            // The connection's own task may still have to notice that the last body ended.
            if idle.sender.is_ready() || (!idle.sender.is_closed() && idle.sender.ready().await.is_ok()) {
                return Some(Taken {
                    sender: idle.sender,
                    is_suspect,
                });
            }
        }
    }

    fn put(&self, sender: SendRequest<Body>) {
        let mut idle = self.idle.borrow_mut();
        let now_ms = self.clock.now_ms();
        if idle.len() >= self.idle_max {
            cheops_types::Limit::UpstreamIdle.hit();
            return;
        }
        if idle
            .first()
            .is_some_and(|oldest| now_ms.saturating_sub(oldest.since_ms) > IDLE_MAX_MS)
        {
            idle.retain(|idle| now_ms.saturating_sub(idle.since_ms) <= IDLE_MAX_MS);
        }
        idle.push(Idle {
            sender,
            since_ms: now_ms,
        });
    }

    pub(crate) fn lease(self: &Rc<Self>, sender: SendRequest<Body>) -> Lease {
        Lease {
            pool: self.clone(),
            sender: Some(sender),
        }
    }
}

/// A connection in use. It goes back to the pool when its answer was read to the end; dropped
/// before that, the connection closes.
pub struct Lease {
    pool: Rc<Pool>,
    sender: Option<SendRequest<Body>>,
}

impl Lease {
    pub(crate) fn finish(&mut self) {
        if let Some(sender) = self.sender.take()
            && !sender.is_closed()
        {
            self.pool.put(sender);
        }
    }
}
