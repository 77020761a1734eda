//! What a request addresses and does, by glue or by the ordinary REST conventions.

use std::sync::Arc;

use cheops_types::VerbClass;

use crate::ListShape;

/// What is known about one request before anything is planned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Identity<'p> {
    /// The kind of the addressed resource; none where the glue does not describe the path.
    pub kind: Option<&'p str>,
    pub verb: VerbClass,
    /// How to read the answer as a list: for every read of a collection, and for reads that are only
    /// presumed to be of one resource. What the answer turns out to be decides.
    pub list: Option<&'p Arc<ListShape>>,
}

/// What a path is, whatever is done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Collection,
    One,
}

impl Role {
    /// By convention collections and ids alternate: `/orders`, `/orders/7`, `/orders/7/lines`, …
    pub(crate) fn by_convention(segments: usize) -> Self {
        if segments == 0 || segments % 2 == 1 {
            Self::Collection
        } else {
            Self::One
        }
    }

    pub(crate) fn verb(self, method: &str) -> VerbClass {
        match (method, self) {
            ("GET" | "HEAD", Self::Collection) => VerbClass::ReadCollection,
            ("GET" | "HEAD", Self::One) | ("OPTIONS", _) => VerbClass::ReadOne,
            ("POST", Self::Collection) => VerbClass::Create,
            ("PUT" | "PATCH" | "DELETE", _) => VerbClass::Change,
            _ => VerbClass::Action,
        }
    }
}
