//! One workflow, and the scope that it carries.

use std::sync::{Arc, OnceLock};

use cheops_scope::{ParseLimits, Scope, read};
use cheops_types::Limits;
use http::HeaderValue;

use super::{held::InUse, scopes::Known};
use crate::key::{Era, KeyMaker, Number};

/// A scope on its way: parsed once, in full form, with its text.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) scope: Scope,
    pub(crate) text: String,
    /// The text as a header's value; none where it cannot be one.
    pub(crate) value: Option<HeaderValue>,
    /// Whether a replica executes an operation: the other sites do the same at theirs.
    pub(crate) inside_replica: bool,
    /// The generation that was asked for first, with its era.
    generation: OnceLock<(Era, u64)>,
}

impl Carried {
    pub(crate) fn new(scope: Scope) -> Arc<Self> {
        Self::of(scope, false)
    }

    pub(crate) fn of(scope: Scope, inside_replica: bool) -> Arc<Self> {
        let text = scope.to_string();
        // Its bytes are shared by all requests that carry it.
        let value = HeaderValue::from_str(&text).ok();
        Arc::new(Self {
            text,
            value,
            scope,
            inside_replica,
            generation: OnceLock::new(),
        })
    }

    /// The scope's generation in the era of a number. It is made once, because an era lasts for long.
    pub(super) fn generation(&self, keys: &KeyMaker, number: Number) -> u64 {
        let era = keys.era(number);
        let make = || keys.generation(number, self.inside_replica, &self.text);
        match self.generation.get_or_init(|| (era, make())) {
            (known, generation) if *known == era => *generation,
            _ => make(),
        }
    }

    /// What this agent has written before, unless it can no longer be read. Its names were checked when the workflow
    /// began.
    pub(super) fn read_again(text: &str, inside_replica: bool, limits: &Limits) -> Option<Arc<Self>> {
        let limits = ParseLimits {
            max_bytes: limits.scope_max_bytes,
            max_depth: limits.scope_max_depth,
        };
        let scope = read(text, &limits.for_printed(), None).ok()?;
        Some(Self::of(scope, inside_replica))
    }
}

/// What a request under way knows of its workflow.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) key: u128,
    pub(crate) carried: Arc<Carried>,
    /// The scope's place in the table, which it keeps meanwhile. None where the scope was found elsewhere.
    pub(super) known: Option<InUse<Known>>,
}
