use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::{BadKey, Key, KeyReader};

/// The identity of a store's history: never one that the site had before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// This one, or the next after `known` if that is later.
    pub(crate) fn after(self, known: Option<Self>) -> Self {
        self.max(Self(known.map_or(0, |known| known.0.saturating_add(1))))
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Key for Incarnation {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        u64::read(input).map(Self)
    }
}
