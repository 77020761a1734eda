//! The seam under the tables: an ordered key/value engine with named tables.

use std::ops::{Bound, ControlFlow};

mod error;
mod file;
mod log;
mod memory;
pub(crate) mod merge;
mod redb;

pub use error::EngineError;
pub(crate) use error::is_full;
pub use log::LogEngine;
pub use memory::MemoryEngine;
pub use redb::RedbEngine;

/// Keys from and to, as bytes.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What a scan calls for every row; it breaks off when told so.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// An ordered key/value engine. Every implementation runs `conformance::run`.
///
/// - Keys of a table are ordered by their bytes. A table that was never written is empty.
/// - A snapshot shows what was committed before it was taken and nothing later.
/// - A batch shows the last commit and its own changes. It becomes visible as a whole at `commit`,
///   or not at all: dropped without it, it never existed.
/// - When `commit` returns `Ok`, the batch and all earlier ones survive a crash. When it returns an
///   error, the batch may have been committed or not; nothing else is possible.
/// - There is one batch at a time; a second waits for the first.
/// - After an error whatever is open may fail. What is opened next works, from what is durable, as far
///   as the disk lets it.
pub trait Engine: Send + Sync + 'static {
    /// After an error it waits for an open batch to end: not to be called by whoever has one open.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError>;

    fn batch(&self) -> Result<Box<dyn Batch + '_>, EngineError>;

    /// Starts again from what is durable. Snapshots taken before may fail from then on. Not to be
    /// called by whoever has a batch open.
    fn reopen(&self) -> Result<(), EngineError>;
}

/// Read access to the tables.
pub trait Snapshot: Send + Sync {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    /// How many rows a table has, in constant time.
    fn count(&self, table: &str) -> Result<u64, EngineError>;

    /// Visits rows in the order of their keys.
    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError>;
}

/// Changes that become durable together.
pub trait Batch {
    fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;

    fn scan(&self, table: &str, range: KeyRange<'_>, visit: &mut Visit<'_>) -> Result<(), EngineError>;

    fn put(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Whether it is there or not.
    fn delete(&mut self, table: &str, key: &[u8]) -> Result<(), EngineError>;

    fn commit(self: Box<Self>) -> Result<(), EngineError>;
}
