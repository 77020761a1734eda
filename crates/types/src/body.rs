//! A body that is kept.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The body of a recorded request: with the record, or by its hash in the payload spool where it is too long for that.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptBody {
    Inline(Bytes),
    Spooled { hash: [u8; 32], bytes: u64 },
}

impl KeptBody {
    pub const EMPTY: Self = Self::Inline(Bytes::new());

    /// How much of it is with the record.
    pub fn inline_len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Spooled { .. } => 0,
        }
    }
}

impl fmt::Debug for KeptBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Spooled { bytes, .. } => write!(f, "{bytes} spooled bytes"),
        }
    }
}
