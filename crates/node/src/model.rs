//! What operators see, as JSON: sets, operations, conflicts and how replicas compare.
//!
//! Times are milliseconds since 1970. No answer holds a credential.

mod body;
mod conflict;
mod cross;
mod difference;
mod group;
mod operation;
mod request;
mod set;
mod verification;

pub use body::Body;
pub use conflict::{Cause, ConflictDetail, ConflictList, ConflictSummary, Reapplied, Side};
pub use cross::{CrossDetail, CrossList, CrossSummary, FlaggedName, Rebalance};
pub use difference::{DIFFERENCES_MAX, Difference, differences};
pub use group::{GroupList, GroupMember, GroupState, GroupSummary, Transfer};
pub use operation::{
    OperationDetail, OperationList, OperationState, OperationSummary, SiteProgress, SiteState,
};
pub use request::{
    AddSite, Adopt, ConflictFilter, Credential, Move, OperationFilter, SetFilter, SetHint, Settle,
};
pub use set::{Afterwards, Replica, ReplicaState, SetDetail, SetList, SetState, SetSummary};
pub use verification::{Comparison, Verification, VerifiedReplica};
