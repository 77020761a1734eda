//! The embedded engine.

use std::{
    collections::HashMap,
    fmt, io,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTable, ReadableTableMetadata, StorageBackend, StorageError, Table, TableDefinition, TableError,
    WriteTransaction,
};

use super::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit, file::StoreFile};

mod backend;

use backend::{Backend, Health};

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
    /// Held by the one batch, and by whoever opens the database anew: never both.
    batch: Mutex<()>,
}

struct Opened {
    database: Database,
    health: Arc<Health>,
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
            batch: Mutex::new(()),
        };
        engine.reopen()?;
        Ok(engine)
    }

    fn open_database(&self) -> Result<Opened, EngineError> {
        let health = Arc::<Health>::default();
        let backend = Backend::new((self.open_backend)()?, Arc::clone(&health));
        // redb takes it for granted, and panics.
        if backend.len()? % PAGE_BYTES != 0 {
            return Err(EngineError::Damaged("its file was cut or is no store".into()));
        }
        let database = Builder::new()
            .set_cache_size(self.cache_bytes)
            .create_with_backend(backend)
            .map_err(refused)?;
        Ok(Opened { database, health })
    }

    fn has_failed(&self) -> bool {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.as_ref().is_some_and(|opened| opened.health.has_failed())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // It guards nothing that could be left half-changed.
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By whoever holds the lock of batches.
    fn replace(&self) -> Result<(), EngineError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // The old one goes first, and what is left of it in snapshots is cut off: its pages are
        // going to be used again.
        if let Some(Opened { database, health }) = opened.take() {
            drop(database);
            health.retire();
        }
        *opened = Some(self.open_database()?);
        Ok(())
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
        if self.has_failed() {
            let batch = self.lock();
            // Someone else may have done it meanwhile.
            if self.has_failed() {
                self.replace()?;
            }
            drop(batch);
        }
        self.with_database(|database| {
            let transaction = database.begin_read().map_err(failed)?;
            let tables = RwLock::default();
            Ok(Box::new(RedbSnapshot { transaction, tables }) as Box<dyn Snapshot>)
        })
    }

    fn batch(&self) -> Result<Box<dyn Batch + '_>, EngineError> {
        let lock = self.lock();
        if self.has_failed() {
            self.replace()?;
        }
        self.with_database(|database| {
            let mut transaction = database.begin_write().map_err(failed)?;
            transaction
                .set_durability(Durability::Immediate)
                .map_err(failed)?;
            transaction.set_quick_repair(true);
            Ok(Box::new(RedbBatch {
                transaction,
                _lock: lock,
            }) as Box<dyn Batch + '_>)
        })
    }

    fn reopen(&self) -> Result<(), EngineError> {
        let _batch = self.lock();
        self.replace()
    }
}

/// With the tables that it has opened: finding one takes as long as finding a row in it.
struct RedbSnapshot {
    transaction: ReadTransaction,
    tables: RwLock<HashMap<String, Option<Arc<ReadTable>>>>,
}

type ReadTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

impl RedbSnapshot {
    fn table(&self, name: &str) -> Result<Option<Arc<ReadTable>>, EngineError> {
        if let Some(table) = self
            .tables
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
        {
            return Ok(table.clone());
        }
        let table = match self.transaction.open_table(definition(name)) {
            Ok(table) => Some(Arc::new(table)),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(failed(error)),
        };
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name.to_owned(), table.clone());
        Ok(table)
    }
}

impl Snapshot for RedbSnapshot {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.table(table)?.map_or(Ok(None), |table| get(&*table, key))
    }

    fn count(&self, table: &str) -> Result<u64, EngineError> {
        let table = self.table(table)?;
        table.map_or(Ok(0), |table| table.len().map_err(failed))
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        self.table(table)?
            .map_or(Ok(()), |table| scan(&*table, range, visit))
    }
}

struct RedbBatch<'a> {
    transaction: WriteTransaction,
    // Last, so that it is released when the transaction is over.
    _lock: MutexGuard<'a, ()>,
}

impl Batch for RedbBatch<'_> {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        get(&self.open(table)?, key)
    }

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError> {
        scan(&self.open(table)?, range, visit)
    }

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        let mut table = self.open(table)?;
        table.insert(key, value).map_err(failed)?;
        Ok(())
    }

    fn delete(&mut self, table: &str, key: &[u8]) -> Result<(), EngineError> {
        let mut table = self.open(table)?;
        table.remove(key).map_err(failed)?;
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<(), EngineError> {
        self.transaction.commit().map_err(failed)
    }
}

impl RedbBatch<'_> {
    fn open(&self, table: &str) -> Result<Table<'_, &'static [u8], &'static [u8]>, EngineError> {
        self.transaction.open_table(definition(table)).map_err(failed)
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
