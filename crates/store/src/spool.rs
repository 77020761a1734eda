//! Bodies too large for a record: files named by the hash of what is in them, stored once, kept as
//! long as a record refers to them.
//!
//! `spool/partial/<number>` is being written; `spool/whole/<sha-256>` is complete and synced. A file
//! becomes whole by being renamed, so a whole file is never incomplete.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cheops_types::Limit;

use crate::{
    PartialId, PayloadHash, PayloadRef,
    engine::is_full,
    error::Error,
    session::{Read, WriteSession},
    span::Span,
    store::Store,
    tables::{PayloadRow, Payloads, Receiving, UnusedPayloads},
};

mod partial;
mod payload;
mod reader;
mod writer;

pub use payload::Payload;
pub use reader::PayloadReader;
pub use writer::SpoolWriter;

/// Payloads that one sweep removes; the next one goes on.
const SWEEP_MAX: usize = 1024;

/// Why a payload could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// What was there before is as it was, and there may be room later.
    #[error(transparent)]
    Full(#[from] SpoolFull),
    #[error("the spool has no payload {0}")]
    Missing(PayloadRef),
    #[error("the spool has no partial file {0}")]
    NoPartial(PartialId),
    #[error("the payload has {bytes} bytes, byte {offset} was asked for")]
    PastEnd { offset: u64, bytes: u64 },
    #[error("{found} was received instead of {expected}: it was thrown away")]
    Mismatch { expected: PayloadRef, found: PayloadRef },
    #[error("the spool's file {} cannot be used: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Store(Error),
}

/// What there is no room in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpoolFull {
    #[error(
        "the spool holds {max_bytes} bytes at most: wait until payloads are no longer needed, or raise `spool_max_bytes`"
    )]
    Limit { max_bytes: u64 },
    #[error("no space is left on the spool's disk: free some, then repeat the request")]
    Disk,
}

impl SpoolError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self + use<'_> {
        |error| {
            if is_full(&error) {
                return SpoolFull::Disk.into();
            }
            Self::File {
                path: path.to_owned(),
                error,
            }
        }
    }
}

impl From<Error> for SpoolError {
    fn from(error: Error) -> Self {
        match error {
            Error::Full => SpoolFull::Disk.into(),
            error => Self::Store(error),
        }
    }
}

/// What a start found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that nothing refers to, removed.
    pub removed: usize,
    /// Payloads that records refer to and that are not there, or not with their length: they have to
    /// be fetched from another holder.
    pub missing: Vec<PayloadRef>,
}

/// A handle of the spool.
#[derive(Debug, Clone)]
pub struct Spool {
    shared: Arc<Shared>,
    store: Store,
}

#[derive(Debug)]
struct Shared {
    partial: PathBuf,
    whole: PathBuf,
    max_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    next_partial: u64,
    /// Payloads that someone is about to refer to: no sweep takes them.
    pins: HashMap<PayloadHash, usize>,
}

impl Spool {
    /// Opens the spool in the directory `data` and removes what a crash left behind. `receiving`
    /// partial files stay, and so do whole files that are expected there.
    pub fn open(data: &Path, store: &Store, max_bytes: u64) -> Result<(Self, Recovered), SpoolError> {
        let spool = data.join("spool");
        let shared = Shared {
            partial: spool.join("partial"),
            whole: spool.join("whole"),
            max_bytes,
            state: Mutex::default(),
        };
        for directory in [&shared.partial, &shared.whole] {
            fs::create_dir_all(directory).map_err(SpoolError::at(directory))?;
        }
        for directory in [data, &spool] {
            sync_directory(directory)?;
        }
        let spool = Self {
            shared: Arc::new(shared),
            store: store.clone(),
        };
        let recovered = spool.recover()?;
        spool.sweep()?;
        Ok((spool, recovered))
    }

    /// Begins a payload.
    pub fn begin(&self) -> Result<SpoolWriter, SpoolError> {
        let id = {
            let mut state = self.shared.lock();
            state.next_partial += 1;
            PartialId(state.next_partial)
        };
        SpoolWriter::create(Arc::clone(&self.shared), id)
    }

    /// Goes on with a partial file that was suspended, or that a restart left because it is listed
    /// as receiving. What is there is read once, for its hash.
    pub fn resume(&self, id: PartialId) -> Result<SpoolWriter, SpoolError> {
        SpoolWriter::resume(Arc::clone(&self.shared), id)
    }

    /// Reads a payload from `offset` on.
    pub fn reader(&self, payload: &PayloadRef, offset: u64) -> Result<PayloadReader, SpoolError> {
        PayloadReader::open(&self.shared.whole_path(&payload.hash), payload, offset)
    }

    /// Keeps a payload that is in the spool from being swept, until a session has retained it.
    pub fn pin(&self, payload: &PayloadRef) -> Option<Payload> {
        let mut state = self.shared.lock();
        self.shared.whole_path(&payload.hash).exists().then(|| {
            *state.pins.entry(payload.hash).or_default() += 1;
            drop(state);
            Payload::pinned(Arc::clone(&self.shared), *payload)
        })
    }

    /// What whole and partial files take.
    pub fn used_bytes(&self) -> u64 {
        self.shared.lock().used_bytes
    }

    /// Removes payloads whose last reference is gone, some of them if there are many, and says how
    /// many. Waits for a commit.
    pub fn sweep(&self) -> Result<usize, SpoolError> {
        let mut swept = Vec::new();
        {
            // While this is held nobody can pin, and whoever unpinned before has committed.
            let mut state = self.shared.lock();
            for (hash, row) in self.store.read()?.by::<UnusedPayloads>(&Span::all(), SWEEP_MAX)? {
                if !state.pins.contains_key(&hash) {
                    if remove(&self.shared.whole_path(&hash))? {
                        state.used_bytes = state.used_bytes.saturating_sub(row.bytes);
                    }
                    swept.push(hash);
                }
            }
        }
        let count = swept.len();
        if count > 0 {
            self.store
                .write(move |session| {
                    for hash in swept {
                        // The same content may have come again in the meantime.
                        if session
                            .get::<Payloads>(&hash)?
                            .is_some_and(|row| row.references == 0)
                        {
                            session.delete::<Payloads>(&hash)?;
                        }
                    }
                    Ok(())
                })?
                .wait()?;
        }
        Ok(count)
    }

    fn recover(&self) -> Result<Recovered, SpoolError> {
        let session = self.store.read()?;
        let mut receiving = BTreeSet::new();
        let mut expected = BTreeSet::new();
        session.for_each::<Receiving>(&Span::all(), |id, row| {
            receiving.insert(id);
            expected.extend(row.expected.map(|payload| payload.hash));
            ControlFlow::Continue(())
        })?;
        let mut recovered = Recovered::default();
        let mut state = self.shared.lock();
        state.next_partial = receiving.last().map_or(0, |id| id.0);
        for (path, name, bytes) in files(&self.shared.partial)? {
            match name.parse().map(PartialId) {
                Ok(id) if receiving.contains(&id) => state.used_bytes += bytes,
                _ => {
                    remove(&path)?;
                    recovered.removed += 1;
                }
            }
        }
        for (path, name, bytes) in files(&self.shared.whole)? {
            let kept = match name.parse::<PayloadHash>() {
                Ok(hash) => expected.contains(&hash) || session.contains::<Payloads>(&hash)?,
                Err(_) => false,
            };
            if kept {
                state.used_bytes += bytes;
            } else {
                remove(&path)?;
                recovered.removed += 1;
            }
        }
        session.for_each::<Payloads>(&Span::all(), |hash, row| {
            let length = fs::metadata(self.shared.whole_path(&hash)).map(|file| file.len());
            if row.references > 0 && length.ok() != Some(row.bytes) {
                recovered.missing.push(PayloadRef {
                    hash,
                    bytes: row.bytes,
                });
            }
            ControlFlow::Continue(())
        })?;
        Ok(recovered)
    }
}

/// Counts one more record that refers to a payload. Its [`Payload`] is kept until the session is
/// committed, unless another record refers to it already.
pub fn retain(session: &mut WriteSession<'_>, payload: &PayloadRef) -> Result<(), Error> {
    let references = session
        .get::<Payloads>(&payload.hash)?
        .map_or(0, |row| row.references);
    let row = PayloadRow {
        bytes: payload.bytes,
        references: references + 1,
    };
    session.put::<Payloads>(&payload.hash, &row)
}

/// Counts one record less. The file of a payload without references goes at the next sweep.
pub fn release(session: &mut WriteSession<'_>, payload: &PayloadRef) -> Result<(), Error> {
    let row = session.get::<Payloads>(&payload.hash)?;
    let Some(references) = row.and_then(|row| row.references.checked_sub(1)) else {
        return Err(Error::Refused(format!("nothing refers to the payload {payload}")));
    };
    let row = PayloadRow {
        bytes: payload.bytes,
        references,
    };
    session.put::<Payloads>(&payload.hash, &row)
}

impl Shared {
    fn whole_path(&self, hash: &PayloadHash) -> PathBuf {
        self.whole.join(hash.to_string())
    }

    fn partial_path(&self, id: PartialId) -> PathBuf {
        self.partial.join(id.to_string())
    }

    /// Takes room before it is written to.
    fn reserve(&self, bytes: u64) -> Result<(), SpoolError> {
        let mut state = self.lock();
        let used_bytes = state.used_bytes.saturating_add(bytes);
        if used_bytes > self.max_bytes {
            Limit::SpoolBytes.hit();
            return Err(SpoolError::Full(SpoolFull::Limit {
                max_bytes: self.max_bytes,
            }));
        }
        state.used_bytes = used_bytes;
        Ok(())
    }

    fn unreserve(&self, bytes: u64) {
        let mut state = self.lock();
        state.used_bytes = state.used_bytes.saturating_sub(bytes);
    }

    fn unpin(&self, hash: &PayloadHash) {
        let mut state = self.lock();
        if let Some(count) = state.pins.get_mut(hash) {
            *count -= 1;
            if *count == 0 {
                state.pins.remove(hash);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters only: a panic elsewhere leaves them usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn files(directory: &Path) -> Result<Vec<(PathBuf, String, u64)>, SpoolError> {
    let entries = fs::read_dir(directory).map_err(SpoolError::at(directory))?;
    entries
        .map(|entry| {
            let entry = entry.map_err(SpoolError::at(directory))?;
            let bytes = entry.metadata().map_err(SpoolError::at(&entry.path()))?.len();
            Ok((
                entry.path(),
                entry.file_name().to_string_lossy().into_owned(),
                bytes,
            ))
        })
        .collect()
}

/// Whether the file was there.
fn remove(path: &Path) -> Result<bool, SpoolError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SpoolError::at(path)(error)),
    }
}

fn sync_directory(path: &Path) -> Result<(), SpoolError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(SpoolError::at(path))
}

#[cfg(test)]
mod tests;
