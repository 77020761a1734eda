//! How a store is opened, and why it is not.

use std::path::PathBuf;

use cheops_types::Limits;

use crate::{Incarnation, engine::EngineError};

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Pages that the engine keeps in memory.
    pub cache_bytes: usize,
    /// Changes that wait for the writer.
    pub queue_max: usize,
    /// Changes that share one commit.
    pub group_max: usize,
    /// Length from which one of the two logs is full.
    pub log_bytes: u64,
    /// The identity of the store if it is created or found to be restored: this one, or a later one
    /// where the site is known to have had it.
    pub incarnation: Incarnation,
    /// The store was restored from a copy. Most copies are recognised; one of the whole directory,
    /// taken at one moment, is not.
    pub restored: bool,
}

impl Options {
    pub fn new(incarnation: Incarnation, limits: &Limits) -> Self {
        Self {
            cache_bytes: limits.store_cache_bytes,
            queue_max: limits.store_queue_max,
            group_max: limits.store_group_max,
            log_bytes: limits.store_log_max_bytes,
            incarnation,
            restored: false,
        }
    }
}

/// Why a store cannot be opened. Nothing in it was changed, except by a migration that had been
/// completed before a later one failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the directory {} cannot be used for the store: {reason}", data.display())]
    Directory { data: PathBuf, reason: String },
    #[error(
        "the store in {} is open in another process: stop that agent, or give this one its own data directory",
        data.display()
    )]
    Locked { data: PathBuf },
    #[error(
        "the store has format {found}, this version of cheops knows formats up to {known}: start the version that wrote it, or a newer one"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "the store has format {found}, which this version of cheops cannot migrate: start a version between the two first"
    )]
    TooOld { found: u32 },
    #[error(
        "the store's description is damaged ({0}): restore it from a backup, or start with an empty one and resync"
    )]
    Damaged(&'static str),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the store's writer cannot be started: {0}")]
    Thread(String),
}
