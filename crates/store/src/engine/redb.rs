//! The embedded engine.

use std::{
    fmt,
    ops::ControlFlow,
    path::Path,
    sync::{PoisonError, RwLock},
};

use redb::{
    Builder, Database, DatabaseError, Durability, ReadTransaction, ReadableTable, StorageBackend, StorageError,
    TableDefinition, TableError, WriteTransaction,
};

use super::{Batch, Engine, EngineError, KeyRange, Snapshot, Visit, file::StoreFile};

/// Opens the backend again after an error.
type OpenBackend = dyn Fn() -> Result<Box<dyn StorageBackend>, EngineError> + Send + Sync;

/// redb with an explicit cache, synced at every commit and open in constant time after a crash.
pub struct RedbEngine {
    open_backend: Box<OpenBackend>,
    cache_bytes: usize,
    /// None while the last reopening failed; every use then tries again.
    database: RwLock<Option<Database>>,
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
            database: RwLock::new(None),
        };
        engine.reopen()?;
        Ok(engine)
    }

    fn open_database(&self) -> Result<Database, EngineError> {
        let backend = AnyBackend((self.open_backend)()?);
        Builder::new()
            .set_cache_size(self.cache_bytes)
            .create_with_file_format_v3(true)
            .create_with_backend(backend)
            .map_err(refused)
    }

    fn with_database<T>(&self, use_it: impl Fn(&Database) -> Result<T, EngineError>) -> Result<T, EngineError> {
        if let Some(database) = &*self.database.read().unwrap_or_else(PoisonError::into_inner) {
            return use_it(database);
        }
        self.reopen()?;
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or_else(|| EngineError::Io("the store is closed".into()))?;
        use_it(database)
    }
}

impl fmt::Debug for RedbEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbEngine").field("cache_bytes", &self.cache_bytes).finish_non_exhaustive()
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
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // The old one goes first: two must never write one file.
        drop(database.take());
        *database = Some(self.open_database()?);
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
        scan(&self.0.open_table(definition(table)).map_err(failed)?, range, visit)
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
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
            EngineError::Damaged(error.to_string())
        }
        error => failed(error),
    }
}

/// A boxed backend is one too.
#[derive(Debug)]
struct AnyBackend(Box<dyn StorageBackend>);

impl StorageBackend for AnyBackend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
        self.0.read(offset, len)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self, eventual: bool) -> std::io::Result<()> {
        self.0.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }
}
