//! What operators ask for.

use std::{collections::BTreeMap, fmt};

use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

use super::{OperationState, SetState};

/// Which replica sets to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetFilter {
    pub service: Option<String>,
    pub kind: Option<String>,
    pub state: Option<SetState>,
    /// Sets with a replica at this site.
    pub site: Option<SiteName>,
    /// Only those that span their sites.
    pub cross: bool,
    /// The `next` of the page before.
    pub after: Option<String>,
    pub limit: Option<usize>,
}

/// Which operations to list. Without a set: those without an outcome here, of all sets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperationFilter {
    pub service: Option<String>,
    /// All that is kept of one set, by its meta-id.
    pub set: Option<String>,
    pub state: Option<OperationState>,
    pub after: Option<String>,
    pub limit: Option<usize>,
}

/// Which conflicts to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConflictFilter {
    pub service: Option<String>,
    /// By its meta-id.
    pub set: Option<String>,
    pub after: Option<String>,
    pub limit: Option<usize>,
}

/// Where to look for a set that is not called by its meta-id.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SetHint {
    pub service: Option<String>,
    pub kind: Option<String>,
}

/// Takes a resource of this site into a replica set: by its path, or by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Adopt {
    pub service: String,
    pub path: Option<String>,
    pub kind: Option<String>,
    pub id: Option<String>,
    /// The sites that are to have a replica too.
    pub sites: Vec<SiteName>,
    /// For reading the resource and for making its replicas.
    pub credential: Credential,
}

/// Gives a set a replica at another site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddSite {
    pub site: SiteName,
    /// For making the replica there.
    #[serde(default)]
    pub credential: Credential,
}

/// Moves a replica: the new site joins, and when it has everything the old one leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    pub from: SiteName,
    pub to: SiteName,
    /// How long to wait for the new site.
    #[serde(default)]
    pub wait_s: Option<u64>,
    /// For making the replica there.
    #[serde(default)]
    pub credential: Credential,
}

/// What became of an execution in doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    pub executed: bool,
    /// What a create that has executed made.
    #[serde(default)]
    pub local_id: Option<String>,
}

/// Headers that prove who asks. Sealed as soon as they arrive; never told.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credential(pub BTreeMap<String, String>);

impl Credential {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_never_printed() {
        let secret = Credential([("authorization".to_owned(), "Bearer 7".to_owned())].into());
        let adopt = Adopt {
            credential: secret,
            ..Adopt::default()
        };
        assert!(!format!("{adopt:?}").contains("Bearer"));
    }
}
