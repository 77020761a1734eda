use std::{fmt, fs, io, path::PathBuf, sync::Arc};

use ring::digest;

use super::{Payload, Shared, SpoolError, partial::PartialFile, remove, sync_directory};
use crate::{PartialId, PayloadHash, PayloadRef};

/// A payload that is being written. Dropped before it is finished or suspended, it is thrown away.
pub struct SpoolWriter {
    shared: Arc<Shared>,
    id: PartialId,
    path: PathBuf,
    file: PartialFile,
    hash: digest::Context,
    /// The partial file is no longer this writer's to remove.
    released: bool,
}

impl SpoolWriter {
    pub(super) fn create(shared: Arc<Shared>, id: PartialId) -> Result<Self, SpoolError> {
        let path = shared.partial_path(id);
        let file = PartialFile::create(&path).map_err(SpoolError::at(&path))?;
        Ok(Self {
            shared,
            id,
            path,
            file,
            hash: digest::Context::new(&digest::SHA256),
            released: false,
        })
    }

    pub(super) fn resume(shared: Arc<Shared>, id: PartialId) -> Result<Self, SpoolError> {
        let path = shared.partial_path(id);
        let mut hash = digest::Context::new(&digest::SHA256);
        let opened = PartialFile::resume(&path, |chunk| hash.update(chunk));
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpoolError::NoPartial(id),
            _ => SpoolError::at(&path)(error),
        })?;
        Ok(Self {
            shared,
            id,
            path,
            file,
            hash,
            released: false,
        })
    }

    /// The number to list as receiving.
    pub fn id(&self) -> PartialId {
        self.id
    }

    /// What has been written: where a sender goes on.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// An error leaves what was there before: the same chunk may be appended later, and what is there
    /// may be suspended.
    pub fn append(&mut self, chunk: &[u8]) -> Result<(), SpoolError> {
        self.shared.reserve(chunk.len() as u64)?;
        if let Err(error) = self.file.append(chunk) {
            self.shared.unreserve(chunk.len() as u64);
            return Err(SpoolError::at(&self.path)(error));
        }
        self.hash.update(chunk);
        Ok(())
    }

    /// Leaves the partial file to be resumed. It survives a restart if it is listed as receiving.
    pub fn suspend(mut self) -> Result<PartialId, SpoolError> {
        self.file.sync().map_err(SpoolError::at(&self.path))?;
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
            bytes: self.bytes(),
        };
        accept(&payload)?;
        self.file.sync().map_err(SpoolError::at(&self.path))?;
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
            self.shared.unreserve(self.bytes());
            // What stays behind is removed at the next start.
            let _ = remove(&self.path);
        }
    }
}

impl fmt::Debug for SpoolWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolWriter")
            .field("id", &self.id)
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}
