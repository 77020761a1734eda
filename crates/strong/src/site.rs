//! What all groups of a site share.

use std::{cell::Cell, rc::Rc, time::Duration};

use crate::{
    disk::Disks, flaws::Flaws, member::Member, runtime::Runtime, sets::Sets, tuning::Tuning, wire::Wire,
};

pub(crate) struct Site {
    pub(crate) here: Member,
    pub(crate) wire: Rc<dyn Wire>,
    pub(crate) sets: Rc<dyn Sets>,
    pub(crate) disks: Rc<dyn Disks>,
    pub(crate) tuning: Tuning,
    pub(crate) flaws: Flaws,
    pub(crate) seed: Cell<u64>,
}

impl Site {
    /// Runs a future so that all that it starts draws its random numbers from the site's seed.
    pub(crate) fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> {
        let seed = self.seed.get();
        // An odd step, so that all seeds come before one comes again.
        self.seed.set(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        Runtime::scope(seed, future)
    }
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
