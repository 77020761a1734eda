//! One file of the log, written from its beginning to its end and then from its beginning again.

use redb::StorageBackend;

use super::record::{Check, Head, Reader, Record, START};
use crate::engine::EngineError;

/// What a file grows by. Writing within what is there already leaves the file system's own journal alone, and is synced
/// in a fraction of the time.
const GROW_BYTES: usize = 1 << 20;

pub(super) struct LogFile {
    backend: Box<dyn StorageBackend>,
    pub(super) head: Option<Head>,
    /// Where the next record goes.
    position: u64,
    check: Check,
}

impl LogFile {
    /// Reads a file to its last whole commit, each of which `replay` is told.
    pub(super) fn open(
        backend: Box<dyn StorageBackend>,
        store: u64,
        mut replay: impl FnMut(u64, &[super::record::Changed<'_>]),
    ) -> Result<Self, EngineError> {
        let length = usize::try_from(backend.len()?)
            .map_err(|_| EngineError::Damaged("its log is too long".into()))?;
        let mut bytes = vec![0; length];
        backend.read(0, &mut bytes)?;
        let mut file = Self {
            backend,
            head: None,
            position: 0,
            check: Check::default(),
        };
        if let Some(head) = Head::decode(&bytes).filter(|head| head.store == store) {
            let mut reader = Reader::new(head, &bytes);
            while let Some((number, changes)) = reader.next() {
                replay(number, &changes);
            }
            file.head = Some(head);
            file.position = reader.position as u64;
            file.check = reader.check;
        }
        Ok(file)
    }

    /// What a killed process has written is in the kernel's memory only: before it counts, it is made durable.
    pub(super) fn sync(&self) -> Result<(), EngineError> {
        Ok(self.backend.sync_data()?)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.position
    }

    /// Begins a log in place of the one that was here. It is durable with its first record.
    pub(super) fn begin(&mut self, head: Head) -> Result<(), EngineError> {
        self.head = None;
        self.backend.write(0, &head.encode())?;
        self.head = Some(head);
        self.position = START as u64;
        self.check = head.check();
        Ok(())
    }

    /// A commit, durable. After an error it is there or not, and nothing may follow before [`Self::cut`].
    pub(super) fn append(&mut self, record: Record) -> Result<(), EngineError> {
        let (bytes, check) = record.end(self.check)?;
        let end = self.position + bytes.len() as u64;
        self.grow(end)?;
        self.backend.write(self.position, &bytes)?;
        self.backend.sync_data()?;
        self.position = end;
        self.check = check;
        Ok(())
    }

    fn grow(&self, end: u64) -> Result<(), EngineError> {
        let length = self.backend.len()?;
        if end <= length {
            return Ok(());
        }
        // Where the disk has no room for that much, it may still have room for the record.
        let grown = self.backend.write(length, &vec![0; GROW_BYTES]);
        if grown.is_err() {
            self.backend.set_len(length)?;
        }
        Ok(())
    }

    /// Takes away what an append that failed may have left.
    pub(super) fn cut(&self) -> Result<(), EngineError> {
        self.backend.set_len(self.position)?;
        self.sync()
    }

    /// Nothing in it counts any more.
    pub(super) fn clear(&mut self) -> Result<(), EngineError> {
        self.head = None;
        self.position = 0;
        self.backend.set_len(0)?;
        self.sync()
    }
}
