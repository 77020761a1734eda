//! Places: a counter of what is under way, one less when each ends.

use std::{cell::Cell, rc::Rc};

/// How many are under way.
#[derive(Clone, Default)]
pub(crate) struct Places(Rc<Cell<usize>>);

impl Places {
    pub(crate) fn taken(&self) -> usize {
        self.0.get()
    }

    /// None when `max` are taken.
    pub(crate) fn take(&self, max: usize) -> Option<Place> {
        let taken = self.taken();
        (taken < max).then(|| {
            self.0.set(taken + 1);
            Place(self.clone())
        })
    }
}

/// One of the places, free again when this is dropped.
pub(crate) struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        let Places(taken) = &self.0;
        taken.set(taken.get() - 1);
    }
}

/// A request under way, to the end of its answer's body.
pub struct InFlight {
    /// Among the requests of its connection.
    pub(crate) _connection: Place,
    /// Among the requests to its peer.
    pub(crate) _peer: Option<Place>,
}
