//! The group as openraft sees it.

use std::fmt;

use openraft::{EmptyNode, impls::leader_id_std};

use crate::{command::Command, member::Member, runtime::Runtime};

openraft::declare_raft_types!(
    pub(crate) Types:
        D = Command,
        R = Applied,
        NodeId = Member,
        Node = EmptyNode,
        LeaderId = leader_id_std::LeaderId<u64, Member>,
        AsyncRuntime = Runtime,
);

pub(crate) type Entry = openraft::type_config::alias::EntryOf<Types>;
pub(crate) type LogId = openraft::type_config::alias::LogIdOf<Types>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<Types>;
pub(crate) type Membership = openraft::Membership<Member, EmptyNode>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
pub(crate) type Snapshot = openraft::type_config::alias::SnapshotOf<Types, bytes::Bytes>;

/// What became of an entry, for the member that proposed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Applied {
    /// No command of ours.
    Nothing,
    Opened,
    AlreadyOpen,
    AlreadyDecided,
    Closed,
    Unknown,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

pub(crate) fn term_of(log_id: &LogId) -> u64 {
    log_id.leader_id.term
}
