//! What version the tables have, whose history they are, and how an old version becomes the present one.

use std::{
    fmt,
    ops::{Bound, ControlFlow},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Batch, Engine, EngineError, Snapshot},
    key::{BadKey, Key, KeyReader},
    seen::{Mark, Seen},
    store::Options,
};

/// The version that this program reads and writes.
pub const FORMAT: u32 = 1;

/// How to reach it, oldest first. Version 1 is the first.
pub(crate) const MIGRATIONS: &[Migration] = &[];

const META: &str = "meta";
const FORMAT_KEY: &[u8] = b"format";
const INCARNATION_KEY: &[u8] = b"incarnation";
const COMMITS_KEY: &[u8] = b"commits";

/// One step to the next version. It is committed together with the new version's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) from: u32,
    pub(crate) apply: fn(&mut dyn Batch) -> Result<(), EngineError>,
}

/// The identity of a store's history: never one that the site had before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// This one, or the next after `known` if that is later.
    fn after(self, known: Option<Self>) -> Self {
        self.max(Self(known.map_or(0, |known| known.0.saturating_add(1))))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Key for Incarnation {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        u64::read(input).map(Self)
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

/// What the store says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) mark: Mark,
    pub(crate) origin: Origin,
}

/// Where a store's history begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Before this opening.
    Before,
    /// Here, with nothing.
    Created,
    /// Here, with an old copy.
    Restored,
}

/// Creates or migrates, and says what is there. `seen` tells an old copy, where that is known.
pub(crate) fn prepare(
    engine: &dyn Engine,
    options: &Options,
    migrations: &[Migration],
    seen: Option<&Seen>,
) -> Result<Meta, OpenError> {
    let seen_incarnation = seen.and_then(Seen::incarnation);
    let snapshot = engine.snapshot()?;
    let found = read_number::<4>(&*snapshot, FORMAT_KEY)?.map(u32::from_be_bytes);
    let is_empty = is_empty(&*snapshot)?;
    drop(snapshot);
    match found {
        None if is_empty => create(engine, options.incarnation.after(seen_incarnation))?,
        None => return Err(OpenError::Damaged("its format is missing")),
        Some(found) if found > FORMAT => {
            return Err(OpenError::Newer { found, known: FORMAT });
        }
        Some(found) => migrate(engine, found, migrations)?,
    }
    let mut mark = read_mark(engine)?;
    let origin = match found {
        None => Origin::Created,
        Some(_) if options.restored || seen.is_some_and(|seen| !seen.fits(mark)) => Origin::Restored,
        Some(_) => Origin::Before,
    };
    if origin == Origin::Restored {
        mark.incarnation = options
            .incarnation
            .after(Some(mark.incarnation))
            .after(seen_incarnation);
        let mut batch = engine.batch()?;
        batch.put(META, INCARNATION_KEY, &mark.incarnation.0.to_be_bytes())?;
        batch.commit()?;
    }
    Ok(Meta { mark, origin })
}

fn create(engine: &dyn Engine, incarnation: Incarnation) -> Result<(), OpenError> {
    let mut batch = engine.batch()?;
    batch.put(META, FORMAT_KEY, &FORMAT.to_be_bytes())?;
    batch.put(META, INCARNATION_KEY, &incarnation.0.to_be_bytes())?;
    Ok(batch.commit()?)
}

fn read_mark(engine: &dyn Engine) -> Result<Mark, OpenError> {
    let snapshot = engine.snapshot()?;
    let incarnation = read_number(&*snapshot, INCARNATION_KEY)?
        .map(|bytes| Incarnation(u64::from_be_bytes(bytes)))
        .ok_or(OpenError::Damaged("its incarnation is missing"))?;
    Ok(Mark {
        incarnation,
        commits: read_commits(&*snapshot)?,
    })
}

fn migrate(engine: &dyn Engine, found: u32, migrations: &[Migration]) -> Result<(), OpenError> {
    for version in found..FORMAT {
        let migration = migrations
            .iter()
            .find(|migration| migration.from == version)
            .ok_or(OpenError::TooOld { found: version })?;
        let mut batch = engine.batch()?;
        (migration.apply)(&mut *batch)?;
        batch.put(META, FORMAT_KEY, &(version + 1).to_be_bytes())?;
        batch.commit()?;
    }
    Ok(())
}

/// Counts the commits, so that one whose outcome is unknown can be looked for.
pub(crate) fn write_commits(batch: &mut dyn Batch, number: u64) -> Result<(), EngineError> {
    batch.put(META, COMMITS_KEY, &number.to_be_bytes())
}

pub(crate) fn read_commits(snapshot: &dyn Snapshot) -> Result<u64, EngineError> {
    match snapshot.get(META, COMMITS_KEY)? {
        None => Ok(0),
        Some(bytes) => bytes
            .try_into()
            .map(u64::from_be_bytes)
            .map_err(|_| EngineError::Damaged("its number of commits cannot be read".into())),
    }
}

fn read_number<const N: usize>(snapshot: &dyn Snapshot, key: &[u8]) -> Result<Option<[u8; N]>, OpenError> {
    let bytes = snapshot.get(META, key)?;
    bytes
        .map(|bytes| {
            bytes
                .try_into()
                .map_err(|_| OpenError::Damaged("a number has the wrong length"))
        })
        .transpose()
}

fn is_empty(snapshot: &dyn Snapshot) -> Result<bool, EngineError> {
    let mut is_empty = true;
    snapshot.scan(META, (Bound::Unbounded, Bound::Unbounded), &mut |_, _| {
        is_empty = false;
        ControlFlow::Break(())
    })?;
    Ok(is_empty)
}

#[cfg(test)]
mod tests;
