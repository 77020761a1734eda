use cheops_types::{Consistency, ServiceName, SiteName};
use serde::{Deserialize, Serialize};

use super::{ConflictSummary, OperationState, OperationSummary};

/// A page of replica sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetList {
    pub sets: Vec<SetSummary>,
    /// Where the next page begins. A page may have fewer sets than asked for, also none, and yet not be
    /// the last: only so many are looked at for one.
    pub next: Option<String>,
}

/// A replica set as this site knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSummary {
    pub meta_id: String,
    /// The id that callers see: the meta-id, or the name where the client chose it, behind those of its parents.
    pub id: String,
    pub service: ServiceName,
    pub kind: String,
    pub state: SetState,
    /// Of this site's replica.
    pub local_id: Option<String>,
    pub sites: Vec<SiteName>,
    /// Who decides what is written to it.
    #[serde(default)]
    pub consistency: Consistency,
    pub conflicts: usize,
    /// Conflicts that were dropped because there were too many, and writes that would be conflicts and are no longer kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conflicts_dropped: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde wants
fn is_zero(number: &u64) -> bool {
    *number == 0
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    format!("there is no state `{text}`; there is {}", words.join(", "))
                })
            }
        }
    };
}
pub(super) use words;

words! {
    /// The set as a whole, seen from this site. The first that applies.
    SetState {
        /// It broke a rule of replication at this site, which leaves it alone until an operator has looked.
        Fenced = "fenced",
        /// This site has left the set in good order.
        Left = "left",
        /// The others went on without this site.
        Expelled = "expelled",
        /// An execution at this site waits for an operator.
        InDoubt = "in-doubt",
        /// A replica could not follow.
        Degraded = "degraded",
        /// The resource is gone.
        Deleted = "deleted",
        /// Something is on its way.
        Pending = "pending",
        /// Everything has executed everywhere, as far as this site knows.
        Ok = "ok",
    }
}

/// A replica set with its replicas and with what is not settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDetail {
    pub set: SetSummary,
    /// Grows when a site is removed by force.
    pub epoch: u64,
    /// One per site of the set, this one first.
    pub replicas: Vec<Replica>,
    /// Sites that were removed by force.
    pub removed: Vec<SiteName>,
    /// Operations without an outcome here, in the order of the set; the first ones if there are many.
    pub waiting: Vec<OperationSummary>,
    pub conflicts: Vec<ConflictSummary>,
    /// Why it is fenced off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fenced: Option<String>,
}

/// A set after an operator's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Afterwards {
    /// None: the set came to nothing, because its create did.
    pub set: Option<SetDetail>,
}

/// One site's replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    pub site: SiteName,
    /// Whether it is this site's own.
    pub here: bool,
    pub local_id: Option<String>,
    pub state: ReplicaState,
    /// What a degraded replica could not follow; of another one, the first operation that does not just wait
    /// for its turn there.
    pub operation: Option<String>,
    /// The application's answer to that.
    pub status: Option<u16>,
    /// What that operation waits for, as the site has told; none where it was refused for good.
    #[serde(default)]
    pub waiting: Option<OperationState>,
    /// The application's own words about it, or what an operator can do.
    #[serde(default)]
    pub said: Option<String>,
    /// How many of the set's operations the site's disk holds.
    pub held: u64,
    /// How many of them have an outcome there.
    pub done: u64,
}

words! {
    /// One site's replica. The first that applies.
    ReplicaState {
        /// The site is about to leave the set.
        Leaving = "leaving",
        /// The site has not told anything yet.
        Unknown = "unknown",
        /// An execution there waits for an operator. Known of this site only.
        InDoubt = "in-doubt",
        /// It could not follow: the application refused, or refuses for now.
        Degraded = "degraded",
        /// The resource is deleted there.
        Deleted = "deleted",
        /// It is being made.
        Absent = "absent",
        /// Operations are on their way to it.
        Pending = "pending",
        Ok = "ok",
    }
}
