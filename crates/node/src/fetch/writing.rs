//! A payload being written without stopping the control runtime: files are touched on other threads.

use std::mem;

use bytes::Bytes;
use cheops_store::{PartialId, Payload, PayloadRef, Spool, SpoolError, SpoolWriter};
use tokio::task::spawn_blocking;

/// What is collected before it is written.
const CHUNK_BYTES: usize = 1024 * 1024;

/// Dropped, it is left to be resumed, as it is when the agent stops in the middle.
pub(super) struct Writing {
    /// None only while another thread has it, and after an error.
    writer: Option<SpoolWriter>,
    id: PartialId,
    collected: Vec<Bytes>,
    collected_bytes: usize,
    bytes: u64,
}

impl Writing {
    pub(super) async fn begin(spool: &Spool) -> Result<Self, SpoolError> {
        let spool = spool.clone();
        elsewhere(move || spool.begin()).await.map(Self::new)
    }

    pub(super) async fn resume(spool: &Spool, id: PartialId) -> Result<Self, SpoolError> {
        let spool = spool.clone();
        elsewhere(move || spool.resume(id)).await.map(Self::new)
    }

    fn new(writer: SpoolWriter) -> Self {
        Self {
            id: writer.id(),
            bytes: writer.bytes(),
            writer: Some(writer),
            collected: Vec::new(),
            collected_bytes: 0,
        }
    }

    pub(super) fn id(&self) -> PartialId {
        self.id
    }

    /// All that was appended.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// After an error the payload cannot be finished.
    pub(super) async fn append(&mut self, data: Bytes) -> Result<(), SpoolError> {
        self.bytes += data.len() as u64;
        self.collected_bytes += data.len();
        self.collected.push(data);
        if self.collected_bytes < CHUNK_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    pub(super) async fn flush(&mut self) -> Result<(), SpoolError> {
        if self.collected.is_empty() {
            return Ok(());
        }
        let collected = mem::take(&mut self.collected);
        self.collected_bytes = 0;
        let mut writer = self.writer.take().ok_or(SpoolError::NoPartial(self.id))?;
        let writer = elsewhere(move || {
            for data in collected {
                writer.append(&data)?;
            }
            Ok(writer)
        })
        .await?;
        self.writer = Some(writer);
        Ok(())
    }

    pub(super) async fn finish(mut self, expected: &PayloadRef) -> Result<Payload, SpoolError> {
        self.flush().await?;
        let (id, expected) = (self.id, *expected);
        let writer = self.writer.take().ok_or(SpoolError::NoPartial(id))?;
        elsewhere(move || writer.finish_expecting(&expected)).await
    }

    /// Leaves what was written to be resumed.
    pub(super) async fn suspend(mut self) -> Result<PartialId, SpoolError> {
        self.flush().await?;
        let writer = self.writer.take().ok_or(SpoolError::NoPartial(self.id))?;
        elsewhere(move || writer.suspend()).await
    }

    /// Throws away what was written.
    pub(super) fn discard(mut self) {
        self.writer = None;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // What cannot be left behind is fetched again.
        if let Some(writer) = self.writer.take() {
            let _ = writer.suspend();
        }
    }
}

/// Runs on a thread that may wait for the disk.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, SpoolError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
