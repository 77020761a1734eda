use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use super::SpoolError;
use crate::PayloadRef;

/// A payload from some byte on. It can be read to its end even when it is swept meanwhile.
#[derive(Debug)]
pub struct PayloadReader {
    file: File,
    left: u64,
}

impl PayloadReader {
    pub(super) fn open(path: &Path, payload: &PayloadRef, offset: u64) -> Result<Self, SpoolError> {
        let left = payload.bytes.checked_sub(offset).ok_or(SpoolError::PastEnd {
            offset,
            bytes: payload.bytes,
        })?;
        let mut file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SpoolError::Missing(*payload),
            _ => SpoolError::at(path)(error),
        })?;
        file.seek(SeekFrom::Start(offset)).map_err(SpoolError::at(path))?;
        Ok(Self { file, left })
    }

    /// Bytes that have not been read yet.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Read for PayloadReader {
    /// A file that ends before its payload does is an error, not an end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buffer[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}
