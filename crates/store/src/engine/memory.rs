//! Tables in memory, for tests: a crash is whatever the test says it is.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{Bound, ControlFlow},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use super::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type Tables = BTreeMap<String, Arc<Rows>>;

/// An engine whose durable state is what was committed last. Handles share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryEngine(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    committed: RwLock<Arc<Tables>>,
    writer: Mutex<()>,
    failures: Mutex<VecDeque<Failure>>,
}

/// What happens to a commit instead of success.
#[derive(Debug, Clone)]
struct Failure {
    error: EngineError,
    committed: bool,
}

impl MemoryEngine {
    /// The next commit that has no failure yet returns `error`; `committed` says whether it took place all the same.
    pub fn fail_commit(&self, error: EngineError, committed: bool) {
        lock(&self.0.failures).push_back(Failure { error, committed });
    }

    /// What a machine would find after a crash now: everything committed, nothing else.
    pub fn crashed(&self) -> Self {
        let survivor = Self::default();
        *write(&survivor.0.committed) = Arc::clone(&read(&self.0.committed));
        survivor
    }
}

// === impl Engine ===

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(MemorySnapshot(Arc::clone(&read(&self.0.committed)))))
    }

    fn batch(&self) -> Result<Box<dyn Batch + '_>, EngineError> {
        let writer = lock(&self.0.writer);
        let tables = Tables::clone(&read(&self.0.committed));
        Ok(Box::new(MemoryBatch {
            shared: &self.0,
            tables,
            _writer: writer,
        }))
    }

    fn reopen(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

struct MemorySnapshot(Arc<Tables>);

impl Snapshot for MemorySnapshot {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(get(&self.0, table, key))
    }

    fn count(&self, table: &str) -> Result<u64, EngineError> {
        Ok(self.0.get(table).map_or(0, |rows| rows.len() as u64))
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.0, table, range, visit);
        Ok(())
    }
}

struct MemoryBatch<'a> {
    shared: &'a Shared,
    tables: Tables,
    _writer: MutexGuard<'a, ()>,
}

impl Batch for MemoryBatch<'_> {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(get(&self.tables, table, key))
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.tables, table, range, visit);
        Ok(())
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let rows = self.tables.entry(table.to_owned()).or_default();
        Arc::make_mut(rows).insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: &str, key: &[u8]) -> Result<(), EngineError> {
        let rows = self.tables.entry(table.to_owned()).or_default();
        Arc::make_mut(rows).remove(key);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), EngineError> {
        let failure = lock(&self.shared.failures).pop_front();
        if failure.as_ref().is_none_or(|failure| failure.committed) {
            *write(&self.shared.committed) = Arc::new(self.tables);
        }
        failure.map_or(Ok(()), |failure| Err(failure.error))
    }
}

fn get(tables: &Tables, table: &str, key: &[u8]) -> Option<Vec<u8>> {
    tables.get(table)?.get(key).cloned()
}

fn scan(tables: &Tables, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) {
    let Some(rows) = tables.get(table).filter(|_| !is_empty(range)) else {
        return;
    };
    for (key, value) in rows.range::<[u8], _>(range) {
        if visit(key, value) == ControlFlow::Break(()) {
            return;
        }
    }
}

/// A map panics on such a range; an engine finds nothing in it.
fn is_empty(range: KeyRange<'_>) -> bool {
    match range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

// Nothing is left half-changed under these locks when a test panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
