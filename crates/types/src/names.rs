//! The names of what lies in a container that spans sites, as agents ask for them.

use serde::{Deserialize, Serialize};

use crate::SiteName;

/// What an agent asks the prime site of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameRequest {
    /// The meta-id of the container.
    pub container: String,
    /// Kind and key of what is to lie in it.
    pub name: String,
    pub ask: NameAsk,
}

/// An attempt is one create, minted by the agent that took it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameAsk {
    /// Before anything executes.
    Reserve {
        /// Where it will be.
        owner: SiteName,
        attempt: String,
        /// The attempt whose work nobody has any more: it was looked for where it should be.
        instead_of: Option<String>,
        /// It was looked for at all sites, and none has it.
        is_nowhere: bool,
        /// How long its create may take, where it is made.
        lasts_ms: u64,
    },
    /// Who has it?
    Peek,
    /// It is there.
    Keep { attempt: String },
    /// It is certainly not there, or no longer.
    Release { attempt: Option<String> },
    /// What this site had of that name is gone; another one may have it.
    Gone { owner: SiteName },
    /// An agent asks itself: it is about to be made although the prime site cannot be asked.
    Unasked { owner: SiteName, attempt: String },
    /// It was made like that.
    Claim {
        owner: SiteName,
        attempt: String,
        since_ms: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameVerdict {
    Granted,
    /// Another attempt has it.
    Held {
        owner: SiteName,
        attempt: String,
        /// Whether it may be looked for: its create is over, as far as anyone knows.
        is_settled: bool,
    },
    /// The site gives names away since another one is gone, and does not know all of them: look for it everywhere.
    Look,
    /// The same, and what another site has given away may still be under way: ask again later.
    Wait,
    /// Another site gives names away.
    NotPrime,
    /// Another one of this name is older and keeps it.
    Rival {
        owner: SiteName,
    },
    Noted,
}
