//! The time that a head may take.

use std::{
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use cheops_types::Limit;

use crate::{Clock, Deadline};

/// One deadline serves many heads: it is set anew when it comes too early.
#[derive(Default)]
pub(super) struct HeadTimer {
    since_ms: u64,
    deadline: Option<Deadline>,
}

impl HeadTimer {
    pub(super) fn restart(&mut self, clock: &Clock) {
        self.since_ms = clock.now_ms();
    }

    /// Ready when the time is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, timeout_ms: u64, clock: &Rc<Clock>) -> Poll<()> {
        loop {
            let deadline = self.deadline.get_or_insert_with(|| {
                let waited_ms = clock.now_ms().saturating_sub(self.since_ms);
                clock.deadline(timeout_ms.saturating_sub(waited_ms))
            });
            ready!(Pin::new(deadline).poll(cx));
            self.deadline = None;
            if clock.now_ms().saturating_sub(self.since_ms) >= timeout_ms {
                Limit::HeadTimeout.hit();
                return Poll::Ready(());
            }
        }
    }
}
