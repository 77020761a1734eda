//! The store of one site: opened once, used through cheap handles.

use std::{
    fmt, io,
    path::Path,
    sync::{
        Arc,
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use cheops_types::Limit;

use crate::{
    Incarnation, OpenError, Options,
    engine::{Engine, EngineError, LogEngine, RedbEngine},
    error::Error,
    format::{self, MIGRATIONS, Meta, Origin},
    lock::Lock,
    seen::Seen,
    session::{ReadSession, WriteSession},
};

mod pending;
mod writer;

pub use pending::Pending;

use writer::{Change, Job, Writer};

/// How often a read begins anew. The engine is opened twice at most after one failed commit, by the
/// first who reads and by the writer.
const READS_MAX: usize = 4;

/// A handle of the store. Reads take a snapshot on the caller's thread. Writes are queued to one
/// writer thread, which commits all that wait together. When the last handle is dropped, the queue
/// is worked off and the file closed.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    queue: Option<SyncSender<Box<dyn Job>>>,
    writer: Option<JoinHandle<()>>,
    queue_max: usize,
    incarnation: Incarnation,
    origin: Origin,
    // Last, so that it is released when the file is closed.
    _lock: Option<Lock>,
}

impl Store {
    /// Opens the store in the directory `data`, which must exist, or creates it there.
    pub fn open(data: &Path, options: &Options) -> Result<Self, OpenError> {
        let lock = Lock::take(data)?;
        let unusable = |error: io::Error| OpenError::Directory {
            data: data.to_owned(),
            reason: error.to_string(),
        };
        let seen = Seen::open(data).map_err(unusable)?;
        let tables = RedbEngine::open(&data.join("store.redb"), options.cache_bytes)?;
        // The tables say themselves what they are: a version that knows no logs must not take them for all there is.
        let is_created = format::upgrade(&tables, options, MIGRATIONS, Some(&seen))?;
        let engine = LogEngine::open(tables, data, options.incarnation.0, options.log_bytes)?;
        let meta = format::describe(&engine, options, is_created, Some(&seen))?;
        seen.keep(data, meta.mark).map_err(unusable)?;
        Self::start(Arc::new(engine), options, &meta, Some((lock, seen)))
    }

    /// Over an engine that nobody else uses.
    pub fn with_engine(engine: impl Engine, options: &Options) -> Result<Self, OpenError> {
        let meta = format::prepare(&engine, options, MIGRATIONS, None)?;
        Self::start(Arc::new(engine), options, &meta, None)
    }

    fn start(
        engine: Arc<dyn Engine>,
        options: &Options,
        meta: &Meta,
        files: Option<(Lock, Seen)>,
    ) -> Result<Self, OpenError> {
        let (lock, seen) = files.unzip();
        let (queue, jobs) = sync_channel(options.queue_max);
        let writer = Writer {
            engine: Arc::clone(&engine),
            queue: jobs,
            group_max: options.group_max.max(1),
            last: meta.mark,
            seen,
        };
        let writer = thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run())
            .map_err(|error| OpenError::Thread(error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            engine,
            queue: Some(queue),
            writer: Some(writer),
            queue_max: options.queue_max,
            incarnation: meta.mark.incarnation,
            origin: meta.origin,
            _lock: lock,
        })))
    }

    /// What is committed now.
    pub fn read(&self) -> Result<ReadSession, Error> {
        Ok(ReadSession::new(self.0.engine.snapshot()?))
    }

    /// Reads from one snapshot, and once more from a newer one if the engine was opened anew meanwhile,
    /// as it is after a write that found the disk full: `read` may run several times. For whoever
    /// cannot put a failure off, as the data plane. Not to be called inside a write session.
    pub fn read_with<T>(&self, read: impl Fn(&ReadSession) -> Result<T, Error>) -> Result<T, Error> {
        let mut outcome = self.read().and_then(|session| read(&session));
        for _ in 1..READS_MAX {
            match outcome {
                Err(Error::Engine(EngineError::Io(_))) => {
                    outcome = self.read().and_then(|session| read(&session));
                }
                _ => break,
            }
        }
        outcome
    }

    /// Queues a change. Sessions run one after another, in the order in which they were queued; each
    /// is durable when its [`Pending`] says so. The closure runs on the writer's thread: it decides
    /// and returns, it waits for nothing. An error that it returns undoes it and nothing else.
    pub fn write<T, F>(&self, change: F) -> Result<Pending<T>, Error>
    where
        T: Send + 'static,
        F: FnOnce(&mut WriteSession<'_>) -> Result<T, Error> + Send + 'static,
    {
        let queue = self.0.queue.as_ref().ok_or(Error::Closed)?;
        let (promise, pending) = pending::pending();
        match queue.try_send(Box::new(Change { change, promise })) {
            Ok(()) => Ok(pending),
            Err(TrySendError::Full(_)) => {
                Limit::StoreQueue.hit();
                Err(Error::Busy {
                    queue_max: self.0.queue_max,
                })
            }
            Err(TrySendError::Disconnected(_)) => Err(Error::Closed),
        }
    }

    /// The identity of this store's history: another one when it was lost or restored.
    pub fn incarnation(&self) -> Incarnation {
        self.0.incarnation
    }

    /// Whether the history begins with this opening: what other sites know of us is not in here.
    pub fn is_new(&self) -> bool {
        self.0.origin != Origin::Before
    }

    /// Whether it begins with an old copy: what is in here is of a past that other sites know more of.
    pub fn is_restored(&self) -> bool {
        self.0.origin == Origin::Restored
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // A session may have held the last handle: a thread cannot wait for itself.
            if writer.thread().id() != thread::current().id() {
                // A panic of a session has been seen by everyone who waited for it.
                let _ = writer.join();
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("incarnation", &self.0.incarnation)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
