use std::{
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{fs::FlockOperation, io::Errno};

use crate::OpenError;

/// The right to write a store. The kernel takes it back when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(data: &Path) -> Result<Self, OpenError> {
        let path = data.join("store.lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| OpenError::Directory {
                data: data.to_owned(),
                reason: error.to_string(),
            })?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(OpenError::Locked {
                data: data.to_owned(),
            }),
            Err(error) => Err(OpenError::Directory {
                data: data.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}
