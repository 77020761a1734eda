//! A workflow as it outlives the process: one line of text.

use std::{fmt, str::FromStr, sync::Arc};

use cheops_scope::{ParseLimits, read};
use cheops_types::Limits;

use super::{Carried, Workflow};

/// What of a workflow is worth keeping: its key and its scope, which is no secret. Printed and read as one
/// line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWorkflow {
    pub(super) key: u128,
    scope: String,
    is_inside_replica: bool,
}

/// The text is no saved workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a saved workflow")]
pub struct InvalidSaved;

const PLAIN: &str = "scope";
const INSIDE_REPLICA: &str = "replica";

impl Workflow {
    pub(super) fn to_saved(&self) -> SavedWorkflow {
        SavedWorkflow {
            key: self.key,
            scope: self.carried.text.clone(),
            is_inside_replica: self.carried.inside_replica,
        }
    }
}

impl SavedWorkflow {
    /// The scope, unless it can no longer be read. Its names were checked when the workflow began.
    pub(super) fn carried(&self, limits: &Limits) -> Option<Arc<Carried>> {
        let limits = ParseLimits {
            max_bytes: limits.scope_max_bytes,
            max_depth: limits.scope_max_depth,
        };
        let scope = read(&self.scope, &limits.for_printed(), None).ok()?;
        Some(Arc::new(Carried {
            text: scope.to_string(),
            scope,
            inside_replica: self.is_inside_replica,
        }))
    }
}

impl fmt::Display for SavedWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_inside_replica {
            INSIDE_REPLICA
        } else {
            PLAIN
        };
        write!(f, "{:032x} {kind} {}", self.key, self.scope)
    }
}

impl FromStr for SavedWorkflow {
    type Err = InvalidSaved;

    fn from_str(line: &str) -> Result<Self, InvalidSaved> {
        let (key, rest) = line.split_once(' ').ok_or(InvalidSaved)?;
        let (kind, scope) = rest.split_once(' ').ok_or(InvalidSaved)?;
        let is_inside_replica = match kind {
            PLAIN => false,
            INSIDE_REPLICA => true,
            _ => return Err(InvalidSaved),
        };
        let is_key = key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit());
        let key = u128::from_str_radix(key, 16).ok().filter(|_| is_key);
        Ok(Self {
            key: key.ok_or(InvalidSaved)?,
            scope: scope.to_owned(),
            is_inside_replica,
        })
    }
}
