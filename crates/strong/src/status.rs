//! What can be seen of a group.

use serde::Serialize;

use crate::{
    founding::{Founding, GroupId},
    member::Member,
};

/// A group as its member at this site sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupStatus {
    pub id: GroupId,
    pub founding: Founding,
    pub me: Member,
    pub members: Vec<Member>,
    pub voters: Vec<Member>,
    pub leader: Option<Member>,
    pub is_leader: bool,
    pub term: u64,
    pub last_index: Option<u64>,
    pub committed_index: Option<u64>,
    pub applied_index: Option<u64>,
    pub snapshot_index: Option<u64>,
    pub log_entries: u64,
    pub log_bytes: usize,
    pub open_intents: usize,
    pub is_awake: bool,
    pub is_stopped: bool,
}
