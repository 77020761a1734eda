//! The embedded engine.

use std::{
    fmt, io,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableTable, StorageBackend,
    StorageError, TableDefinition, TableError, WriteTransaction,
};

use super::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit, file::StoreFile};

/// redb's files are made of these.
const PAGE_BYTES: u64 = 4096;

/// Opens the backend again after an error.
type OpenBackend = dyn Fn() -> Result<Box<dyn StorageBackend>, EngineError> + Send + Sync;

/// redb with an explicit cache, synced at every commit and open in constant time after a crash.
pub struct RedbEngine {
    open_backend: Box<OpenBackend>,
    cache_bytes: usize,
    /// None while the last reopening failed; every use then tries again.
    opened: RwLock<Option<Opened>>,
}

struct Opened {
    database: Database,
    retired: Arc<AtomicBool>,
}

impl RedbEngine {
    /// The file is created where there is none. The caller holds the lock that keeps a second
    /// process out.
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let path = path.to_owned();
        Self::with_backend(cache_bytes, move || Ok(Box::new(StoreFile::open(&path)?)))
    }

    /// Over something else than a file, to record or to damage what reaches the disk.
    pub fn with_backend(
        cache_bytes: usize,
        open_backend: impl Fn() -> Result<Box<dyn StorageBackend>, EngineError> + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        let engine = Self {
            open_backend: Box::new(open_backend),
            cache_bytes,
            opened: RwLock::new(None),
        };
        engine.reopen()?;
        Ok(engine)
    }

    fn open_database(&self) -> Result<Opened, EngineError> {
        let retired = Arc::new(AtomicBool::new(false));
        let backend = Backend {
            inner: (self.open_backend)()?,
            retired: Arc::clone(&retired),
        };
        // redb takes it for granted, and panics.
        if backend.len()? % PAGE_BYTES != 0 {
            return Err(EngineError::Damaged("its file was cut or is no store".into()));
        }
        let database = Builder::new()
            .set_cache_size(self.cache_bytes)
            .create_with_file_format_v3(true)
            .create_with_backend(backend)
            .map_err(refused)?;
        Ok(Opened { database, retired })
    }

    fn with_database<T>(
        &self,
        use_it: impl FnOnce(&Database) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if let Some(opened) = &*self.opened.read().unwrap_or_else(PoisonError::into_inner) {
            return use_it(&opened.database);
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let opened = match &mut *opened {
            Some(opened) => opened,
            none => none.insert(self.open_database()?),
        };
        use_it(&opened.database)
    }
}

impl fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbEngine")
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}

// === impl Engine ===

impl Engine for RedbEngine {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        self.with_database(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            Ok(Box::new(RedbSnapshot(transaction)) as Box<dyn Snapshot>)
        })
    }

    fn batch(&self) -> Result<Box<dyn Batch + '_>, EngineError> {
        self.with_database(|database| {
            let mut transaction = database.begin_write().map_err(failed)?;
            transaction.set_durability(Durability::Immediate);
            transaction.set_quick_repair(true);
            Ok(Box::new(RedbBatch(transaction)) as Box<dyn Batch>)
        })
    }

    fn reopen(&self) -> Result<(), EngineError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // The old one goes first, and what is left of it in snapshots is cut off: its pages are
        // going to be used again.
        if let Some(Opened { database, retired }) = opened.take() {
            drop(database);
            retired.store(true, Ordering::SeqCst);
        }
        *opened = Some(self.open_database()?);
        Ok(())
    }
}

struct RedbSnapshot(ReadTransaction);

impl Snapshot for RedbSnapshot {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        match self.0.open_table(definition(table)) {
            Ok(table) => get(&table, key),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        match self.0.open_table(definition(table)) {
            Ok(table) => scan(&table, range, visit),
            Err(TableError::TableDoesNotExist(_)) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

struct RedbBatch(WriteTransaction);

impl Batch for RedbBatch {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        get(&self.0.open_table(definition(table)).map_err(failed)?, key)
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(
            &self.0.open_table(definition(table)).map_err(failed)?,
            range,
            visit,
        )
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut table = self.0.open_table(definition(table)).map_err(failed)?;
        table.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn delete(&mut self, table: &str, key: &[u8]) -> Result<bool, EngineError> {
        let mut table = self.0.open_table(definition(table)).map_err(failed)?;
        let was_there = table.remove(key).map_err(failed)?.is_some();
        Ok(was_there)
    }

    fn commit(self: Box<Self>) -> Result<(), EngineError> {
        self.0.commit().map_err(failed)
    }
}

fn definition(table: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(table)
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let value = table.get(key).map_err(failed)?;
    Ok(value.map(|value| value.value().to_vec()))
}

fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    range: KeyRange<'_>,
    visit: &mut Visit<'_>,
) -> Result<(), EngineError> {
    for row in table.range::<&[u8]>(range).map_err(failed)? {
        let (key, value) = row.map_err(failed)?;
        if visit(key.value(), value.value()) == ControlFlow::Break(()) {
            break;
        }
    }
    Ok(())
}

fn failed(error: impl Into<redb::Error>) -> EngineError {
    match error.into() {
        redb::Error::Io(error) => error.into(),
        redb::Error::Corrupted(what) => EngineError::Damaged(what),
        redb::Error::PreviousIo => EngineError::Io("an earlier access failed".into()),
        error => EngineError::Io(error.to_string()),
    }
}

fn refused(error: DatabaseError) -> EngineError {
    match error {
        DatabaseError::DatabaseAlreadyOpen => EngineError::InUse,
        DatabaseError::UpgradeRequired(version) => {
            EngineError::Damaged(format!("its file has redb's format {version}"))
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
            EngineError::Damaged(error.to_string())
        }
        error => failed(error),
    }
}

/// What redb writes to.
///
/// Its length is durable before anything is written within it: redb cannot open a file whose last
/// pages reached the disk while its new length did not. The file grows by doubling, so this is rare.
/// Retired, it serves nothing any more.
#[derive(Debug)]
struct Backend {
    inner: Box<dyn StorageBackend>,
    retired: Arc<AtomicBool>,
}

impl Backend {
    fn check(&self) -> io::Result<()> {
        if self.retired.load(Ordering::SeqCst) {
            return Err(io::Error::other("the store was opened anew"));
        }
        Ok(())
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let bytes = self.inner.read(offset, len);
        // Afterwards: what was read while it was retired may be somebody else's.
        self.check()?;
        bytes
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.inner.set_len(len)?;
        self.inner.sync_data(false)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.check()?;
        self.inner.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.inner.write(offset, data)
    }
}
