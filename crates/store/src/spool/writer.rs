use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Arc,
};

use ring::digest;

use super::{PartialId, Payload, PayloadHash, PayloadRef, Shared, SpoolError, remove, sync_directory};

const RESUME_CHUNK_BYTES: usize = 128 * 1024;

/// A payload that is being written. Dropped before it is finished or suspended, it is thrown away.
pub struct SpoolWriter {
    shared: Arc<Shared>,
    id: PartialId,
    path: PathBuf,
    file: File,
    hash: digest::Context,
    bytes: u64,
    /// The partial file is no longer this writer's to remove.
    released: bool,
}

impl SpoolWriter {
    pub(super) fn create(shared: Arc<Shared>, id: PartialId) -> Result<Self, SpoolError> {
        let path = shared.partial_path(id);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(SpoolError::at(&path))?;
        Ok(Self {
            shared,
            id,
            path,
            file,
            hash: digest::Context::new(&digest::SHA256),
            bytes: 0,
            released: false,
        })
    }

    pub(super) fn resume(shared: Arc<Shared>, id: PartialId) -> Result<Self, SpoolError> {
        let path = shared.partial_path(id);
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpoolError::NoPartial(id),
            _ => SpoolError::at(&path)(error),
        })?;
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut bytes = 0;
        let mut chunk = vec![0; RESUME_CHUNK_BYTES];
        loop {
            match file.read(&mut chunk).map_err(SpoolError::at(&path))? {
                0 => break,
                read => {
                    hash.update(&chunk[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(Self {
            shared,
            id,
            path,
            file,
            hash,
            bytes,
            released: false,
        })
    }

    /// The number to list as receiving.
    pub fn id(&self) -> PartialId {
        self.id
    }

    /// What has been written: where a sender goes on.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// After an error the payload cannot be finished.
    pub fn append(&mut self, chunk: &[u8]) -> Result<(), SpoolError> {
        self.shared.reserve(chunk.len() as u64)?;
        self.bytes += chunk.len() as u64;
        self.hash.update(chunk);
        self.file.write_all(chunk).map_err(SpoolError::at(&self.path))
    }

    /// Leaves the partial file to be resumed. It survives a restart if it is listed as receiving.
    pub fn suspend(mut self) -> Result<PartialId, SpoolError> {
        self.file.sync_data().map_err(SpoolError::at(&self.path))?;
        self.released = true;
        Ok(self.id)
    }

    /// Syncs the payload and gives it its name. It is durable when this returns; it stays when a
    /// session has retained it.
    pub fn finish(self) -> Result<Payload, SpoolError> {
        self.finish_if(|_| Ok(()))
    }

    /// The same, unless it is another payload than the one that was announced.
    pub fn finish_expecting(self, expected: &PayloadRef) -> Result<Payload, SpoolError> {
        self.finish_if(|found| {
            if found == expected {
                Ok(())
            } else {
                Err(SpoolError::Mismatch {
                    expected: *expected,
                    found: *found,
                })
            }
        })
    }

    fn finish_if(
        mut self,
        accept: impl FnOnce(&PayloadRef) -> Result<(), SpoolError>,
    ) -> Result<Payload, SpoolError> {
        let payload = PayloadRef {
            hash: PayloadHash::finish(self.hash.clone()),
            bytes: self.bytes,
        };
        accept(&payload)?;
        self.file.sync_all().map_err(SpoolError::at(&self.path))?;
        let whole = self.shared.whole_path(&payload.hash);
        {
            // Pinned in the same breath, so that no sweep comes between.
            let mut state = self.shared.lock();
            let replaced = fs::metadata(&whole).ok();
            fs::rename(&self.path, &whole).map_err(SpoolError::at(&whole))?;
            // The same content was there: it is stored, and counted, once.
            if let Some(replaced) = replaced {
                state.used_bytes = state.used_bytes.saturating_sub(replaced.len());
            }
            *state.pins.entry(payload.hash).or_default() += 1;
        }
        self.released = true;
        let pinned = Payload::pinned(Arc::clone(&self.shared), payload);
        sync_directory(&self.shared.whole)?;
        Ok(pinned)
    }
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        if !self.released {
            self.shared.unreserve(self.bytes);
            // What stays behind is removed at the next start.
            let _ = remove(&self.path);
        }
    }
}

impl fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolWriter")
            .field("id", &self.id)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
