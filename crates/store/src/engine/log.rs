//! A log in front of another engine: a commit is one record that is appended and synced, its rows stay in memory, and the
//! engine behind gets them later, many commits in one of its own.
//!
//! ```text
//! commit 7 8 9 ──▶ log 2, synced        rows of log 2 in memory ─┐
//!                                       rows of log 1 in memory ─┼─▶ what a snapshot sees
//! commit 1 … 6 ──▶ log 1 ──▶ applied ──▶ the engine behind ──────┘
//! ```
//!
//! There are two logs. While the rows of one are applied, commits go to the other. A row that changes with every step of
//! its set is written behind once for all of them, and one that came and went is not written at all. When all of a log is
//! durable behind, its file is used again from its beginning.

mod apply;
mod file;
mod overlay;
mod record;
mod view;

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, TryLockError},
    thread::{self, JoinHandle},
};

use cheops_types::Limit;
use redb::StorageBackend;

use self::{
    file::LogFile,
    overlay::Overlay,
    record::{Head, Record},
    view::{Behind, Live, View},
};
use super::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit, file::StoreFile, merge};

/// Rows of the engine behind that say how far it is.
const TABLE: &str = "log";
const STORE_KEY: &[u8] = b"store";
const APPLIED_KEY: &[u8] = b"applied";

/// An engine whose commits cost one write and one sync.
pub struct LogEngine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    behind: Box<dyn Engine>,
    /// Length from which a log is full.
    full_bytes: u64,
    /// What snapshots are made of.
    state: RwLock<State>,
    live: Arc<Live>,
    /// Held by the one batch, by whoever starts anew and while the logs change places.
    logs: Mutex<Logs>,
    turn: Mutex<Turn>,
    turned: Condvar,
}

/// The rows of the log that is written to, and of the one that is being applied.
#[derive(Clone)]
struct State {
    active: Arc<Overlay>,
    frozen: Option<Arc<Overlay>>,
    /// The engine behind as it is since the last log was applied to it.
    behind: Arc<Behind>,
    /// The last commit.
    last: u64,
}

struct Logs {
    store: u64,
    files: [LogFile; 2],
    active: usize,
    /// An append has failed: what it left has to be cut off first.
    has_failed: bool,
}

/// What is asked of the thread that applies, and what became of it.
#[derive(Default)]
struct Turn {
    is_over: bool,
    /// Why the frozen log could not be applied the last time.
    failed: Option<EngineError>,
}

impl LogEngine {
    /// With its files in the directory `data`. `identity` is given to the engine behind if it has none: a log of another
    /// one is not taken.
    pub fn open(
        behind: impl Engine,
        data: &Path,
        identity: u64,
        full_bytes: u64,
    ) -> Result<Self, EngineError> {
        let open = |name: &str| -> Result<Box<dyn StorageBackend>, EngineError> {
            Ok(Box::new(StoreFile::open(&data.join(name))?))
        };
        let files = [open("store.log.0")?, open("store.log.1")?];
        // The names of the files, too, have to survive.
        std::fs::File::open(data)?.sync_all()?;
        Self::with_files(behind, files, identity, full_bytes)
    }

    /// Over something else than files, to record or to damage what reaches the disk.
    pub fn with_files(
        behind: impl Engine,
        files: [Box<dyn StorageBackend>; 2],
        identity: u64,
        full_bytes: u64,
    ) -> Result<Self, EngineError> {
        let (logs, state) = recover(&behind, files, identity)?;
        let shared = Arc::new(Shared {
            behind: Box::new(behind),
            full_bytes,
            state: RwLock::new(state),
            live: Arc::default(),
            logs: Mutex::new(logs),
            turn: Mutex::default(),
            turned: Condvar::new(),
        });
        let applying = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("store-tables".into())
            .spawn(move || apply::run(&applying))
            .map_err(|error| EngineError::Io(error.to_string()))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }
}

impl Drop for LogEngine {
    fn drop(&mut self) {
        self.shared.turn().is_over = true;
        self.shared.turned.notify_all();
        if let Some(thread) = self.thread.take() {
            // What it could not apply is in the logs.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LogEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogEngine").finish_non_exhaustive()
    }
}

/// Reads both logs as they were left: the older one, if any of it is missing behind, goes on being applied, the newer one
/// goes on being written.
fn recover(
    behind: &dyn Engine,
    files: [Box<dyn StorageBackend>; 2],
    identity: u64,
) -> Result<(Logs, State), EngineError> {
    let (store, applied) = standing(behind, identity)?;
    let mut overlays = Vec::new();
    let mut read = Vec::new();
    for backend in files {
        let (overlay, mut numbers) = (Overlay::default(), Vec::new());
        let file = LogFile::open(backend, store, |number, changes| {
            numbers.push(number);
            if number > applied {
                let changes = changes.iter();
                let changes = changes.map(|(table, key, value)| (*table, key.to_vec(), value.map(Arc::from)));
                overlay.add(number, number, changes);
            }
        })?;
        file.sync()?;
        overlays.push((overlay, numbers));
        read.push(file);
    }
    let generation = |file: &LogFile| file.head.map_or(0, |head| head.generation);
    let active = usize::from(generation(&read[1]) > generation(&read[0]));
    let numbers = [1 - active, active]
        .into_iter()
        .flat_map(|at| overlays[at].1.iter().copied());
    let is_whole = numbers
        .filter(|number| *number > applied)
        .enumerate()
        .all(|(at, number)| number == applied + 1 + at as u64);
    let mut overlays: Vec<_> = overlays
        .into_iter()
        .map(|(overlay, _)| Arc::new(overlay))
        .collect();
    let [first, second] = [read.remove(0), read.remove(0)];
    let mut logs = Logs {
        store,
        files: [first, second],
        active,
        has_failed: false,
    };
    if !is_whole {
        // The engine behind is an older copy than the logs: they are of a later past than it can follow.
        for file in &mut logs.files {
            file.clear()?;
        }
        overlays = vec![Arc::default(), Arc::default()];
    }
    if logs.files[active].head.is_none() {
        logs.files[active].begin(Head { store, generation: 1 })?;
    }
    let frozen = Arc::clone(&overlays[1 - active]);
    let active = Arc::clone(&overlays[active]);
    let state = State {
        last: applied.max(frozen.last()).max(active.last()),
        behind: Behind::of(behind)?,
        frozen: (frozen.last() > 0).then_some(frozen),
        active,
    };
    Ok((logs, state))
}

/// Whose logs these may be, and the last commit that is in the engine behind.
fn standing(behind: &dyn Engine, identity: u64) -> Result<(u64, u64), EngineError> {
    let snapshot = behind.snapshot()?;
    let number = |key| match snapshot.get(TABLE, key)? {
        None => Ok(None),
        Some(bytes) => match bytes.try_into() {
            Ok(bytes) => Ok(Some(u64::from_be_bytes(bytes))),
            Err(_) => Err(EngineError::Damaged(
                "what it says of its log cannot be read".into(),
            )),
        },
    };
    let applied = number(APPLIED_KEY)?.unwrap_or(0);
    if let Some(store) = number(STORE_KEY)? {
        return Ok((store, applied));
    }
    drop(snapshot);
    let mut batch = behind.batch()?;
    batch.put(TABLE, STORE_KEY, &identity.to_be_bytes())?;
    batch.commit()?;
    Ok((identity, applied))
}

impl Shared {
    fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is committed now.
    fn view(&self) -> Result<View, EngineError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.behind.has_failed() {
            return Ok(View::new(state.clone(), &self.live));
        }
        drop(state);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.behind = Behind::of(&*self.behind)?;
        Ok(View::new(state.clone(), &self.live))
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.logs
            .lock()
            .unwrap_or_else(|poisoned| self.after_panic(poisoned.into_inner()))
    }

    /// None where somebody else has them.
    fn try_logs(&self) -> Option<MutexGuard<'_, Logs>> {
        match self.logs.try_lock() {
            Ok(logs) => Some(logs),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.after_panic(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What a panic leaves half-changed is cut off like what a failed append has left.
    fn after_panic<'l>(&self, mut logs: MutexGuard<'l, Logs>) -> MutexGuard<'l, Logs> {
        self.logs.clear_poison();
        logs.has_failed = true;
        logs
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more commit: changes the logs' places when one is full, and waits when both are.
    fn make_room(&self, logs: &mut Logs) -> Result<(), EngineError> {
        if logs.files[logs.active].bytes() < self.full_bytes || self.freeze(logs)? {
            return Ok(());
        }
        if logs.files[logs.active].bytes() < 2 * self.full_bytes {
            return Ok(());
        }
        Limit::StoreLog.hit();
        let mut turn = self.turn();
        // What failed may succeed now: there is an attempt for each commit that waits for it.
        turn.failed = None;
        self.turned.notify_all();
        while self.state().frozen.is_some() {
            if let Some(error) = &turn.failed {
                return Err(error.clone());
            }
            turn = self.turned.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        drop(turn);
        self.freeze(logs).map(drop)
    }

    /// Hands the rows of the active log to the thread that applies them; false where it still has those of the other one.
    fn freeze(&self, logs: &mut Logs) -> Result<bool, EngineError> {
        // Or a commit that failed would be in a log whose end nobody looks at any more.
        logs.recover()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.frozen.is_some() {
            return Ok(false);
        }
        let next = 1 - logs.active;
        let generation = logs.files[logs.active].head.map_or(1, |head| head.generation + 1);
        let store = logs.store;
        // All that it has is durable behind.
        logs.files[next].begin(Head { store, generation })?;
        logs.active = next;
        state.frozen = Some(std::mem::take(&mut state.active));
        drop(state);
        let _turn = self.turn();
        self.turned.notify_all();
        Ok(true)
    }
}

// === impl Engine ===

impl Engine for LogEngine {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(self.shared.view()?))
    }

    fn batch(&self) -> Result<Box<dyn Batch + '_>, EngineError> {
        let mut logs = self.shared.logs();
        logs.recover()?;
        Ok(Box::new(LogBatch {
            view: self.shared.view()?,
            changes: BTreeMap::new(),
            shared: &self.shared,
            logs,
        }))
    }

    fn reopen(&self) -> Result<(), EngineError> {
        self.shared.logs().recover()
    }
}

impl Logs {
    /// What a failed append has left is neither there nor not: from here on it is not.
    fn recover(&mut self) -> Result<(), EngineError> {
        if self.has_failed {
            self.files[self.active].cut()?;
            self.has_failed = false;
        }
        Ok(())
    }
}

type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

struct LogBatch<'a> {
    view: View,
    changes: BTreeMap<String, Changes>,
    shared: &'a Shared,
    // Last, so that it is released when the batch is over.
    logs: MutexGuard<'a, Logs>,
}

impl LogBatch<'_> {
    fn change(&mut self, table: &str, key: &[u8], value: Option<Vec<u8>>) {
        match self.changes.get_mut(table) {
            Some(changes) => drop(changes.insert(key.to_vec(), value)),
            None => drop(
                self.changes
                    .insert(table.to_owned(), BTreeMap::from([(key.to_vec(), value)])),
            ),
        }
    }
}

impl Batch for LogBatch<'_> {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        match self.changes.get(table).and_then(|changes| changes.get(key)) {
            Some(changed) => Ok(changed.clone()),
            None => self.view.get(table, key),
        }
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        let Some(changes) = self.changes.get(table) else {
            return self.view.scan(table, range, visit);
        };
        let changed = merge::in_range(changes, range).map(|(key, value)| (key, value.as_ref()));
        merge::merged(changed, |visit| self.view.scan(table, range, visit), visit)
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.change(table, key, Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, table: &str, key: &[u8]) -> Result<(), EngineError> {
        self.change(table, key, None);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), EngineError> {
        let Self {
            view,
            changes,
            shared,
            mut logs,
        } = *self;
        // It would keep versions that nobody else reads.
        drop(view);
        if changes.is_empty() {
            return Ok(());
        }
        shared.make_room(&mut logs)?;
        let number = shared.state().last + 1;
        let mut record = Record::new(number);
        for (table, changes) in &changes {
            for (key, value) in changes {
                record.add(table, key, value.as_deref())?;
            }
        }
        let active = logs.active;
        if let Err(error) = logs.files[active].append(record) {
            logs.has_failed = true;
            return Err(error);
        }
        let mut state = shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let rows = changes.iter().flat_map(|(table, changes)| {
            let changes = changes.iter();
            changes.map(|(key, value)| (table.as_str(), key.clone(), value.as_deref().map(Arc::from)))
        });
        state.active.add(number, shared.live.oldest(number), rows);
        state.last = number;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
