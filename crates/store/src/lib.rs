//! What a site remembers: typed tables with secondary indexes and atomic sessions over an ordered
//! key/value engine, payloads as files named by their hash, and secrets sealed with the site's key.
//!
//! A session is durable as a whole before anyone is told that it succeeded, and indexes never differ
//! from their tables. Reads never wait for writes. Nothing here reads a clock, the environment or a
//! source of randomness (the caller hands randomness in), and nothing knows what the records mean.

pub mod conformance;
mod engine;
mod error;
mod format;
mod incarnation;
mod key;
mod lock;
mod opening;
mod payload;
mod seal;
mod seen;
mod session;
mod span;
mod spool;
mod store;
mod table;
pub mod tables;
mod value;

/// For the fuzzer (`crates/fuzzing`) only: reads a value as the store does.
#[doc(hidden)]
pub fn decode_value<V: serde::de::DeserializeOwned>(bytes: &[u8]) -> Option<V> {
    value::decode(bytes).ok()
}

pub use engine::{
    Batch, Engine, EngineError, KeyRange, LogEngine, MemoryEngine, RedbEngine, Snapshot, Visit,
};
pub use error::Error;
pub use format::FORMAT;
pub use incarnation::Incarnation;
pub use key::{BadKey, Key, KeyReader, write_bytes};
pub use opening::{OpenError, Options};
pub use payload::{PartialId, PayloadHash, PayloadRef};
pub use seal::{Entropy, SealError, Sealed, SiteKey};
pub use session::{Read, ReadSession, Row, WriteSession};
pub use span::Span;
pub use spool::{
    Payload, PayloadReader, Recovered, Spool, SpoolError, SpoolFull, SpoolWriter, release, retain,
};
pub use store::{Pending, Store};
pub use table::{Encoded, Index, IndexRows, Table};
