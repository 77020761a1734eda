//! A scope as it outlives the process: one line of text.

use std::{fmt, str::FromStr, sync::Arc};

use cheops_types::Limits;

use super::{Carried, scopes::Known};

/// A scope, which is no secret, and the generation of its keys. Printed and read as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedScope {
    pub(super) generation: u64,
    scope: String,
    is_inside_replica: bool,
}

/// The text is no saved scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a saved scope")]
pub struct InvalidSaved;

const PLAIN: &str = "scope";
const INSIDE_REPLICA: &str = "replica";
const GENERATION_DIGITS: usize = 13;

impl Known {
    pub(super) fn to_saved(&self) -> SavedScope {
        SavedScope {
            generation: self.generation,
            scope: self.carried.text.clone(),
            is_inside_replica: self.carried.inside_replica,
        }
    }
}

impl SavedScope {
    pub(super) fn carried(&self, limits: &Limits) -> Option<Arc<Carried>> {
        Carried::read_again(&self.scope, self.is_inside_replica, limits)
    }
}

impl fmt::Display for SavedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_inside_replica {
            INSIDE_REPLICA
        } else {
            PLAIN
        };
        // The length tells a line that was cut off: half a scope would be another one.
        write!(
            f,
            "{:013x} {kind} {} {}",
            self.generation,
            self.scope.len(),
            self.scope
        )
    }
}

impl FromStr for SavedScope {
    type Err = InvalidSaved;

    fn from_str(line: &str) -> Result<Self, InvalidSaved> {
        let (generation, rest) = line.split_once(' ').ok_or(InvalidSaved)?;
        let (kind, rest) = rest.split_once(' ').ok_or(InvalidSaved)?;
        let (length, scope) = rest.split_once(' ').ok_or(InvalidSaved)?;
        if length != scope.len().to_string() {
            return Err(InvalidSaved);
        }
        let is_inside_replica = match kind {
            PLAIN => false,
            INSIDE_REPLICA => true,
            _ => return Err(InvalidSaved),
        };
        let is_generation =
            generation.len() == GENERATION_DIGITS && generation.bytes().all(|b| b.is_ascii_hexdigit());
        let generation = u64::from_str_radix(generation, 16).ok().filter(|_| is_generation);
        Ok(Self {
            generation: generation.ok_or(InvalidSaved)?,
            scope: scope.to_owned(),
            is_inside_replica,
        })
    }
}
