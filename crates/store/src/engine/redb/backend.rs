use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::StorageBackend;

/// What became of a backend.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// An access failed: redb serves nothing from then on, whatever the reason was.
    failed: AtomicBool,
    /// Another one has taken its place.
    retired: AtomicBool,
}

impl Health {
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }
}

/// What redb writes to.
///
/// Its length is durable before anything is written within it: redb cannot open a file whose last
/// pages reached the disk while its new length did not. The file grows by doubling, so this is rare.
/// Retired, it serves nothing any more.
#[derive(Debug)]
pub(super) struct Backend {
    inner: Box<dyn StorageBackend>,
    health: Arc<Health>,
}

impl Backend {
    pub(super) fn new(inner: Box<dyn StorageBackend>, health: Arc<Health>) -> Self {
        Self { inner, health }
    }

    fn check(&self) -> io::Result<()> {
        if self.health.retired.load(Ordering::SeqCst) {
            return Err(io::Error::other("the store was opened anew"));
        }
        Ok(())
    }

    fn noted<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() {
            self.health.failed.store(true, Ordering::SeqCst);
        }
        outcome
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.noted(self.inner.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.noted(self.inner.read(offset, out))?;
        // Afterwards: what was read while it was retired may be somebody else's.
        self.check()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.noted(self.inner.set_len(len).and_then(|()| self.inner.sync_data()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.noted(self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.noted(self.inner.write(offset, data))
    }
}
