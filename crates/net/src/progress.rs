//! How far a body came.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use crate::Trailers;

/// How far a body came, to tell a slow one from a silent one and a finished one from both.
#[derive(Debug, Clone, Default)]
pub struct Progress(Rc<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    moved_at: Cell<Option<Instant>>,
    ended: Cell<bool>,
    /// Which trailers may pass; without it, all.
    trailers: Option<Rc<Trailers>>,
}

impl Progress {
    /// Of a body whose trailers may pass as these rules say; without rules, all.
    pub(crate) fn new(trailers: Option<&Rc<Trailers>>) -> Self {
        Self(Rc::new(ProgressState {
            trailers: trailers.cloned(),
            ..ProgressState::default()
        }))
    }

    /// Something came. `is_last`: nothing more will.
    pub(crate) fn note(&self, is_last: bool) {
        self.0.moved_at.set(Some(Instant::now()));
        self.0.ended.set(is_last);
    }

    /// Which trailers may pass; without it, all.
    pub(crate) fn trailers(&self) -> Option<&Trailers> {
        self.0.trailers.as_deref()
    }

    /// For how long nothing has moved; none before the first move.
    pub(crate) fn still_for(&self) -> Option<Duration> {
        self.0.moved_at.get().map(|moved_at| moved_at.elapsed())
    }
}
