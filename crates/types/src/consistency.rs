//! How a replica set takes writes.

use serde::Serialize;

/// The consistency asked for a replica set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    #[default]
    Eventual,
    Strong,
}
