//! Idle HTTP/1.1 connections to one service, on one core.

use std::{cell::RefCell, rc::Rc};

use hyper::client::conn::http1::SendRequest;

use crate::{Clock, Progress};

/// A connection that waited longer than this may just be closing on the other side.
const SUSPECT_AFTER_MS: u64 = 1_000;
/// Idle connections are dropped after this time.
const IDLE_MAX_MS: u64 = 60_000;

struct Idle<B> {
    sender: SendRequest<B>,
    since_ms: u64,
}

/// A connection taken from the pool.
pub(crate) struct Taken<B> {
    pub(crate) sender: SendRequest<B>,
    /// It waited so long that its other end may be closing it right now.
    pub(crate) is_suspect: bool,
}

pub(crate) struct Pool<B> {
    idle: RefCell<Vec<Idle<B>>>,
    idle_max: usize,
    clock: Rc<Clock>,
}

impl<B> Pool<B> {
    pub(crate) fn new(idle_max: usize, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            idle: RefCell::default(),
            idle_max,
            clock,
        })
    }

    /// The connection that was used last: it is the least likely to be stale.
    pub(crate) async fn take(&self) -> Option<Taken<B>> {
        loop {
            let Idle { sender, since_ms } = self.idle.borrow_mut().pop()?;
            let is_suspect = self.clock.now_ms().saturating_sub(since_ms) > SUSPECT_AFTER_MS;
            if !sender.is_ready() && !sender.is_closed() {
                // Its own task may still have to notice that the last answer ended. If it is not
                // ready after that, it is busy with something that nobody waits for: it is dropped.
                tokio::task::yield_now().await;
            }
            if sender.is_ready() {
                return Some(Taken { sender, is_suspect });
            }
        }
    }

    fn put(&self, sender: SendRequest<B>) {
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

    /// `request` tells how far the request's body came, where it had one.
    pub(crate) fn lease(self: &Rc<Self>, sender: SendRequest<B>, request: Option<Progress>) -> Lease<B> {
        Lease {
            pool: self.clone(),
            sender: Some(sender),
            request,
        }
    }
}

/// A connection in use. It goes back to the pool when its answer was read to the end; dropped
/// before that, the connection closes.
pub struct Lease<B> {
    pool: Rc<Pool<B>>,
    sender: Option<SendRequest<B>>,
    request: Option<Progress>,
}

impl<B> Lease<B> {
    pub(crate) fn finish(&mut self) {
        // A service may answer before it has read the whole request; that connection is still busy.
        let has_sent = self.request.as_ref().is_none_or(Progress::has_ended);
        if let Some(sender) = self.sender.take()
            && has_sent
            && !sender.is_closed()
        {
            self.pool.put(sender);
        }
    }
}
