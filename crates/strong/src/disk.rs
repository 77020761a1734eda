//! What a member remembers: the promises that it made.

use std::{io, rc::Rc};

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;

use crate::founding::Founding;

pub mod conformance;
mod memory;

pub use memory::{MemoryDisk, MemoryDisks};

/// One entry of the log; its bytes mean nothing to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub index: u64,
    pub bytes: Bytes,
}

/// All that a disk holds of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    pub vote: Option<Bytes>,
    /// What was said with the last purge.
    pub purged: Option<Bytes>,
    /// In ascending order, without gaps.
    pub entries: Vec<Record>,
    pub snapshot: Option<Bytes>,
}

/// Ends when what it stands for is on the disk for good.
pub type Durable = LocalBoxFuture<'static, io::Result<()>>;

/// The disk of one group at this site.
///
/// - An operation is queued when its function is called, not when its future is first polled, and the
///   operations take effect in this order. After a crash the disk is as after some prefix of them,
///   which holds all whose futures had ended.
/// - A single member writes to it.
/// - An error is for good: the member stops, and goes on from the disk at the next start.
/// - A purge destroys contents, so does a truncation and a newer snapshot; payloads and sealed
///   credentials in the entries are gone then, as far as the medium forgets.
pub trait Disk {
    /// Everything, once, before all else.
    fn load(&self) -> LocalBoxFuture<'_, io::Result<Loaded>>;

    fn save_vote(&self, vote: Bytes) -> Durable;

    /// Entries that follow the last one, or the purged ones, without a gap.
    fn append(&self, entries: Vec<Record>) -> Durable;

    /// Drops all entries above `index`, all with `None`.
    fn truncate_after(&self, index: Option<u64>) -> Durable;

    /// Drops all entries up to `index`, and remembers `purged`. The log may end below `index`.
    fn purge(&self, index: u64, purged: Bytes) -> Durable;

    /// Replaces the snapshot.
    fn save_snapshot(&self, snapshot: Bytes) -> Durable;
}

/// The disks of all groups of a site.
pub trait Disks {
    /// The groups that have a disk here.
    fn groups(&self) -> LocalBoxFuture<'_, io::Result<Vec<Founding>>>;

    /// The disk of a group, made when there is none. When it ends the group is among [`Disks::groups`].
    fn open<'a>(&'a self, founding: &'a Founding) -> LocalBoxFuture<'a, io::Result<Rc<dyn Disk>>>;
}
