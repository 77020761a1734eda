//! Why there is no plan.

use cheops_types::{Code, Problem};

/// A scope that cannot become a plan for this request. Nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    pub code: Code,
    pub detail: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }

    pub fn to_problem(&self) -> Problem {
        Problem::new(self.code, self.detail.clone())
    }
}
