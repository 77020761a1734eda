//! What a request does to a resource, as far as planning is concerned.

use serde::{Deserialize, Serialize};

/// The columns of the method × operator table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerbClass {
    /// Reads one resource.
    ReadOne,
    /// Reads a collection.
    ReadCollection,
    /// Creates a resource in a collection.
    Create,
    /// Replaces, patches or deletes one resource.
    Change,
    /// Any other request on one resource.
    Action,
}

impl VerbClass {
    /// Whether the request leaves the resource as it is, so that it may be asked twice.
    pub fn is_read(self) -> bool {
        matches!(self, Self::ReadOne | Self::ReadCollection)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOne => "read-one",
            Self::ReadCollection => "read-collection",
            Self::Create => "create",
            Self::Change => "change",
            Self::Action => "action",
        }
    }
}
