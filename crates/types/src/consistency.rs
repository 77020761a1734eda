//! How a replica set takes writes.

use serde::{Deserialize, Serialize};

/// The consistency asked for a replica set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    #[default]
    Eventual,
    Strong,
}

impl Consistency {
    pub fn is_eventual(&self) -> bool {
        *self == Self::Eventual
    }
}
