//! One moment of a log engine: rows in memory over a snapshot of the engine behind.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    State,
    overlay::{Overlay, Rows, Value},
};
use crate::engine::{Engine, EngineError, KeyRange, Snapshot, Visit, merge};

/// The moments of the snapshots that are open, each with how many there are.
#[derive(Debug, Default)]
pub(super) struct Live(Mutex<BTreeMap<u64, usize>>);

pub(super) struct View {
    state: State,
    live: Arc<Live>,
}

/// A snapshot of the engine behind. Nothing changes there but when a log is applied, so all share one until then.
pub(super) struct Behind {
    snapshot: Box<dyn Snapshot>,
    /// An access has failed: the engine may have been opened anew.
    has_failed: AtomicBool,
}

impl Behind {
    pub(super) fn of(engine: &dyn Engine) -> Result<Arc<Self>, EngineError> {
        Ok(Arc::new(Self {
            snapshot: engine.snapshot()?,
            has_failed: AtomicBool::new(false),
        }))
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    fn noted<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if outcome.is_err() {
            self.has_failed.store(true, Ordering::SeqCst);
        }
        outcome
    }

    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.noted(self.snapshot.get(table, key))
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.noted(self.snapshot.scan(table, range, visit))
    }
}

impl Live {
    /// The oldest moment that is still read, or this one.
    pub(super) fn oldest(&self, now: u64) -> u64 {
        self.lock().keys().next().copied().unwrap_or(now)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    pub(super) fn new(state: State, live: &Arc<Live>) -> Self {
        *live.lock().entry(state.last).or_default() += 1;
        Self {
            state,
            live: Arc::clone(live),
        }
    }

    fn in_memory(&self, table: &str, key: &[u8]) -> Option<Value> {
        let get = |overlay: &Overlay| overlay.get(table, key, self.state.last);
        get(&self.state.active).or_else(|| self.state.frozen.as_deref().and_then(get))
    }

    fn rows_in_memory(&self, table: &str, range: KeyRange<'_>) -> Rows {
        let mut rows = Rows::new();
        let overlays = [self.state.frozen.as_deref(), Some(&*self.state.active)];
        for overlay in overlays.into_iter().flatten() {
            overlay.lay(table, range, self.state.last, &mut rows);
        }
        rows
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let mut live = self.live.lock();
        if let Some(open) = live.get_mut(&self.state.last) {
            *open -= 1;
            if *open == 0 {
                live.remove(&self.state.last);
            }
        }
    }
}

impl Snapshot for View {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        match self.in_memory(table, key) {
            Some(value) => Ok(value.map(|value| value.to_vec())),
            None => self.state.behind.get(table, key),
        }
    }

    fn count(&self, table: &str) -> Result<u64, EngineError> {
        use std::ops::Bound::Unbounded;
        let behind = &self.state.behind;
        let mut count = behind.noted(behind.snapshot.count(table))?;
        for (key, value) in self.rows_in_memory(table, (Unbounded, Unbounded)) {
            let was_there = behind.get(table, &key)?.is_some();
            count = count + u64::from(value.is_some()) - u64::from(was_there);
        }
        Ok(count)
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        // A copy: whoever visits may read more, and must not hold up the next commit meanwhile.
        let rows = self.rows_in_memory(table, range);
        if rows.is_empty() {
            return self.state.behind.scan(table, range, visit);
        }
        merge::merged(
            rows.into_iter(),
            |visit| self.state.behind.scan(table, range, visit),
            visit,
        )
    }
}
