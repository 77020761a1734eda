//! What a set is of.

use cheops_types::{Consistency, ServiceName, Span};
use serde::{Deserialize, Serialize};

use crate::MetaId;

/// What identifies the resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub meta: MetaId,
    pub service: ServiceName,
    pub kind: String,
    /// The ids of the resource's parents in its path, as meta-ids where they are replicated.
    pub parents: Vec<String>,
    /// The id, where the client chose it.
    pub name: Option<String>,
    /// How it spans its sites; none: a replica at each.
    #[serde(default)]
    pub span: Option<Span>,
    /// Who decides what is written to it: each site for itself, or all of them together.
    #[serde(default, skip_serializing_if = "Consistency::is_eventual")]
    pub consistency: Consistency,
}
