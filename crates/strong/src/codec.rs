//! Bytes: what members say to each other, and what is on the disk. All begin with a version.

use std::{collections::BTreeSet, io};

use bytes::Bytes;
use cheops_types::SiteName;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, VoteRequest,
    VoteResponse,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    founding::Founding,
    member::Member,
    types::{LogId, Types, Vote},
};

#[cfg(test)]
mod tests;

/// What is written now. Another is refused, whatever it means.
const VERSION: u8 = 1;

/// The most that one message may have: a snapshot of a group, or entries.
pub(crate) const MESSAGE_MAX_BYTES: usize = 64 << 20;

/// Why bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is empty")]
    Empty,
    #[error("it has the version {0}, this agent knows {VERSION}")]
    Version(u8),
    #[error("it has {0} bytes, more than {MESSAGE_MAX_BYTES}")]
    TooLong(usize),
    #[error("it cannot be read: {0}")]
    Garbage(String),
}

impl From<Unreadable> for io::Error {
    fn from(error: Unreadable) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

pub(crate) fn write(value: &impl Serialize) -> Bytes {
    let mut bytes = vec![VERSION];
    rmp_serde::encode::write(&mut bytes, value).expect("our own types can be written");
    bytes.into()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    if bytes.len() > MESSAGE_MAX_BYTES {
        return Err(Unreadable::TooLong(bytes.len()));
    }
    let (version, rest) = bytes.split_first().ok_or(Unreadable::Empty)?;
    if *version != VERSION {
        return Err(Unreadable::Version(*version));
    }
    let mut reader = rmp_serde::Deserializer::new(rest);
    let value = T::deserialize(&mut reader).map_err(|error| Unreadable::Garbage(error.to_string()))?;
    if !reader.get_ref().is_empty() {
        return Err(Unreadable::Garbage("something follows it".to_owned()));
    }
    Ok(value)
}

/// As [`decode`], of what this site itself wrote.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    Ok(decode(bytes)?)
}

/// A request from one member to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) founders: BTreeSet<SiteName>,
    pub(crate) generation: u32,
    pub(crate) from: Member,
    pub(crate) to: Member,
    pub(crate) request: Request,
}

impl Message {
    pub(crate) fn founding(&self) -> Founding {
        Founding {
            founders: self.founders.clone(),
            generation: self.generation,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    Snapshot {
        vote: Vote,
        snapshot: Bytes,
    },
    Transfer(TransferLeaderRequest<Types>),
    /// How far is the group? For the leader.
    ReadIndex,
    /// Is the group founded?
    Hello,
    /// Somebody needs the group.
    Wake,
    /// The leader, of this vote and with its log up to here, is about to sleep.
    Doze {
        vote: Vote,
        last: Option<LogId>,
    },
}

/// What a member answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    Append(AppendEntriesResponse<Types>),
    Vote(VoteResponse<Types>),
    Snapshot(SnapshotResponse<Types>),
    Transferred(bool),
    ReadIndex(Result<u64, ReadIndexError>),
    Hello {
        is_founded: bool,
    },
    Awake,
    Dozing(bool),
    /// Not now: the member woke up, or is ending.
    Later,
}

/// Why a member cannot tell how far the group is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReadIndexError {
    NotLeader(Option<SiteName>),
    NoMajority,
}
