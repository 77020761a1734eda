//! What version the tables have, whose history they are, and how an old version becomes the present one.

use std::ops::{Bound, ControlFlow};

use crate::{
    Incarnation, OpenError, Options,
    engine::{Batch, Engine, EngineError, Snapshot},
    seen::{Mark, Seen},
};

/// The version that this program reads and writes.
pub const FORMAT: u32 = 2;

/// How to reach it, oldest first. Version 1 had all its commits in the tables; from 2 on, the last ones are in a log beside them.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    from: 1,
    apply: |_| Ok(()),
}];

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
    let is_created = upgrade(engine, options, migrations, seen)?;
    describe(engine, options, is_created, seen)
}

/// Creates or migrates; whether it did the first.
pub(crate) fn upgrade(
    engine: &dyn Engine,
    options: &Options,
    migrations: &[Migration],
    seen: Option<&Seen>,
) -> Result<bool, OpenError> {
    let snapshot = engine.snapshot()?;
    let found = read_number::<4>(&*snapshot, FORMAT_KEY)?.map(u32::from_be_bytes);
    let is_empty = is_empty(&*snapshot)?;
    drop(snapshot);
    match found {
        None if is_empty => {
            let seen_incarnation = seen.and_then(Seen::incarnation);
            create(engine, options.incarnation.after(seen_incarnation))?;
        }
        None => return Err(OpenError::Damaged("its format is missing")),
        Some(found) if found > FORMAT => {
            return Err(OpenError::Newer { found, known: FORMAT });
        }
        Some(found) => migrate(engine, found, migrations)?,
    }
    Ok(found.is_none())
}

/// What is there, once it has the present version. An old copy gets a new incarnation.
pub(crate) fn describe(
    engine: &dyn Engine,
    options: &Options,
    is_created: bool,
    seen: Option<&Seen>,
) -> Result<Meta, OpenError> {
    let seen_incarnation = seen.and_then(Seen::incarnation);
    let mut mark = read_mark(engine)?;
    let is_old = options.restored || seen.is_some_and(|seen| !seen.fits(mark));
    let origin = match is_created {
        true => Origin::Created,
        false if is_old => Origin::Restored,
        false => Origin::Before,
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
