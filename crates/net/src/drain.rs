//! Tells every connection of a listener, once, that it should end after its current request.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use slab::Slab;

/// Shared by a listener and its connections on one core.
#[derive(Default)]
pub(crate) struct Drain {
    draining: Cell<bool>,
    members: RefCell<Slab<Option<Waker>>>,
    /// How many of the members are no connections of their own.
    parts: Cell<usize>,
    /// Woken when the last connection ends.
    empty: RefCell<Option<Waker>>,
}

impl Drain {
    /// A connection's place.
    pub(crate) fn join(self: &Rc<Self>) -> DrainMember {
        self.member(false)
    }

    /// The place of something within a connection.
    pub(crate) fn join_as_part(self: &Rc<Self>) -> DrainMember {
        self.parts.set(self.parts.get() + 1);
        self.member(true)
    }

    /// For a body within a connection.
    pub(crate) fn ending(self: &Rc<Self>) -> Ending {
        Ending(self.join_as_part())
    }

    fn member(self: &Rc<Self>, is_part: bool) -> DrainMember {
        let key = self.members.borrow_mut().insert(None);
        DrainMember {
            drain: self.clone(),
            key,
            is_part,
            is_registered: Cell::new(false),
        }
    }

    pub(crate) fn start(&self) {
        self.draining.set(true);
        for (_, waker) in self.members.borrow_mut().iter_mut() {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.members.borrow().len() - self.parts.get()
    }

    /// Completes when no connection is left.
    pub(crate) async fn emptied(&self) {
        std::future::poll_fn(|cx| {
            if self.members.borrow().is_empty() {
                return std::task::Poll::Ready(());
            }
            *self.empty.borrow_mut() = Some(cx.waker().clone());
            std::task::Poll::Pending
        })
        .await;
    }
}

/// One place; dropping it leaves.
pub(crate) struct DrainMember {
    drain: Rc<Drain>,
    key: usize,
    is_part: bool,
    is_registered: Cell<bool>,
}

impl DrainMember {
    /// Whether the connection should end. A task's waker stays the same for its life, so it is
    /// registered once and a later call costs one load.
    pub(crate) fn should_end(&self, cx: &mut Context<'_>) -> bool {
        if self.drain.draining.get() {
            return true;
        }
        if !self.is_registered.replace(true) {
            self.drain.members.borrow_mut()[self.key] = Some(cx.waker().clone());
        }
        false
    }
}

impl Drop for DrainMember {
    fn drop(&mut self) {
        let mut members = self.drain.members.borrow_mut();
        members.remove(self.key);
        if self.is_part {
            self.drain.parts.set(self.drain.parts.get() - 1);
        }
        if members.is_empty()
            && let Some(waker) = self.drain.empty.borrow_mut().take()
        {
            waker.wake();
        }
    }
}

/// Tells a body that its listener is being closed.
pub struct Ending(DrainMember);

impl Ending {
    pub(crate) fn has_come(&self, cx: &mut Context<'_>) -> bool {
        self.0.should_end(cx)
    }
}
