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
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoSpace
            }
            _ => Self::Io(error.to_string()),
        }
    }
}
