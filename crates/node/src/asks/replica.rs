//! How one site's replica is, as its own application tells it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How one site's replica is, as its own application tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaState {
    /// None where the site has no replica.
    pub(crate) local: Option<String>,
    /// The application's answer to the read; none when there was none.
    pub(crate) status: Option<u16>,
    /// SHA-256 of what is compared, in hexadecimal digits.
    pub(crate) digest: Option<String>,
    /// What is compared, with the ids that all sites know.
    pub(crate) state: Option<Value>,
    /// What the application said, where it did not show the replica.
    #[serde(default)]
    pub(crate) said: Option<String>,
    /// How far its create is; none where the replica cannot be read.
    #[serde(default)]
    pub(crate) progress: Option<Progress>,
}

/// How far one site's replica is, as its application tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Progress {
    Done,
    /// In the application's own word.
    UnderWay(String),
    Failed(String),
}

impl From<cheops_glue::Stage> for Progress {
    fn from(stage: cheops_glue::Stage) -> Self {
        match stage {
            cheops_glue::Stage::Done => Self::Done,
            cheops_glue::Stage::UnderWay(word) => Self::UnderWay(word),
            cheops_glue::Stage::Failed(word) => Self::Failed(word),
        }
    }
}
