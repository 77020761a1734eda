//! Executions under way at this site's application.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Counts executions. An agent that stops begins no more and waits for the end of the others: one whose end
/// is not recorded would be in doubt at the next start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    stopping: bool,
}

/// An execution, until what became of it is on its way to the engine.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Shared>);

impl Calls {
    /// None when the agent stops.
    pub(crate) fn begin(&self) -> Option<UnderWay> {
        let mut state = self.0.lock();
        if state.stopping {
            return None;
        }
        state.under_way += 1;
        Some(UnderWay(Arc::clone(&self.0)))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.lock().stopping
    }

    /// Lets none begin any more, and waits for those under way. Blocks the thread.
    pub(crate) fn stop(&self, patience: Duration) {
        let mut state = self.0.lock();
        state.stopping = true;
        let waited = self
            .0
            .ended
            .wait_timeout_while(state, patience, |state| state.under_way > 0);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.under_way > 0 {
            tracing::warn!(
                executions = state.under_way,
                "stopped without waiting for executions; the next start finds out about them"
            );
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment: a panic elsewhere leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
        self.0.ended.notify_all();
    }
}
