use std::io;

/// Why an engine could not do what it was asked. Cloned to everyone whose change was in a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error("no space is left on the store's disk: free some, then repeat the request")]
    NoSpace,
    #[error("the store's disk failed: {0}")]
    Io(String),
    #[error("the store is damaged: {0}; restore it from a backup or start with an empty one and resync")]
    Damaged(String),
    #[error("the store's file was given to the engine twice")]
    InUse,
}

impl From<io::Error> for EngineError {
    fn from(error: io::Error) -> Self {
        if is_full(&error) {
            Self::NoSpace
        } else {
            Self::Io(error.to_string())
        }
    }
}

/// Whether room is all that was missing: on the disk, in its quota, or under the limit of a file.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_missing_quota_is_missing_space() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::FBIG] {
            assert_eq!(EngineError::from(io::Error::from(errno)), EngineError::NoSpace);
        }
        let failed = EngineError::from(io::Error::from(Errno::IO));
        assert!(matches!(failed, EngineError::Io(_)), "{failed}");
    }
}
