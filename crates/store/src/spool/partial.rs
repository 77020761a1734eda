use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// A file that grows by whole chunks: one that does not fit leaves it as it was.
#[derive(Debug)]
pub(super) struct PartialFile {
    file: File,
    bytes: u64,
    /// Part of a chunk could not be taken away again.
    spoilt: bool,
}

impl PartialFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        Ok(Self {
            file,
            bytes: 0,
            spoilt: false,
        })
    }

    /// Reads what is there, chunk by chunk, and goes on at its end.
    pub(super) fn resume(path: &Path, mut visit: impl FnMut(&[u8])) -> io::Result<Self> {
        const CHUNK_BYTES: usize = 128 * 1024;
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut bytes = 0;
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                read => {
                    visit(&chunk[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(Self {
            file,
            bytes,
            spoilt: false,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.check()?;
        match self.file.write_all(chunk) {
            Ok(()) => self.bytes += chunk.len() as u64,
            Err(error) => {
                self.spoilt = self.file.set_len(self.bytes).is_err();
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_all()
    }

    fn check(&self) -> io::Result<()> {
        if self.spoilt {
            return Err(io::Error::other("an earlier write to it failed"));
        }
        Ok(())
    }
}
