//! The log of a group for openraft: in memory as a whole, and on the disk.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Debug,
    io,
    ops::RangeBounds,
    rc::Rc,
};

use bytes::Bytes;
use openraft::{
    AsyncRuntime, OptionalSend, RaftLogReader,
    storage::{IOFlushed, LogState, RaftLogStorage},
};

use crate::{
    codec,
    disk::{Disk, Loaded, Record},
    runtime::Runtime,
    types::{Entry, LogId, Types, Vote},
};

#[cfg(test)]
mod tests;

/// A handle; the log is bounded by snapshots, so that it fits into memory.
#[derive(Clone)]
pub(crate) struct LogStore(Rc<Inner>);

struct Inner {
    disk: Rc<dyn Disk>,
    entries: RefCell<BTreeMap<u64, (Entry, usize)>>,
    vote: RefCell<Option<Vote>>,
    purged: Cell<Option<LogId>>,
    bytes: Cell<usize>,
    forgets_votes: bool,
}

impl LogStore {
    /// `loaded` is what was on the disk, apart from its snapshot.
    pub(crate) fn new(disk: Rc<dyn Disk>, loaded: &Loaded, forgets_votes: bool) -> io::Result<Self> {
        let mut entries = BTreeMap::new();
        let mut bytes = 0;
        for record in &loaded.entries {
            let entry: Entry = codec::read(&record.bytes)?;
            if entry.log_id.index != record.index {
                return Err(io::Error::other("an entry of the log is in the wrong place"));
            }
            bytes += record.bytes.len();
            entries.insert(record.index, (entry, record.bytes.len()));
        }
        let vote = loaded.vote.as_ref().map(|bytes| codec::read(bytes)).transpose()?;
        let purged = loaded
            .purged
            .as_ref()
            .map(|bytes| codec::read(bytes))
            .transpose()?;
        Ok(Self(Rc::new(Inner {
            disk,
            entries: RefCell::new(entries),
            vote: RefCell::new(vote),
            purged: Cell::new(purged),
            bytes: Cell::new(bytes),
            forgets_votes,
        })))
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.0.vote.borrow().clone()
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        let entries = self.0.entries.borrow();
        entries
            .last_key_value()
            .map(|(_, (entry, _))| entry.log_id)
            .or(self.0.purged.get())
    }

    /// The name of the entry at an index, if the log still has it.
    pub(crate) fn log_id(&self, index: u64) -> Option<LogId> {
        let entries = self.0.entries.borrow();
        let purged = self.0.purged.get().filter(|purged| purged.index == index);
        entries.get(&index).map(|(entry, _)| entry.log_id).or(purged)
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.entries.borrow().len() as u64
    }

    /// What the log holds, as bytes on the disk.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes.get()
    }

    fn forget(&self, index: u64) {
        if let Some((_, size)) = self.0.entries.borrow_mut().remove(&index) {
            self.0.bytes.set(self.0.bytes.get() - size);
        }
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let entries = self.0.entries.borrow();
        Ok(entries
            .range(range)
            .map(|(_, (entry, _))| entry.clone())
            .collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.vote())
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        Ok(LogState {
            last_purged_log_id: self.0.purged.get(),
            last_log_id: self.last(),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        if !self.0.forgets_votes {
            self.0.disk.save_vote(codec::write(vote)).await?;
        }
        self.0.vote.replace(Some(vote.clone()));
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        for entry in entries {
            let index = entry.log_id.index;
            let bytes = codec::write(&entry);
            self.0.bytes.set(self.0.bytes.get() + bytes.len());
            self.0.entries.borrow_mut().insert(index, (entry, bytes.len()));
            records.push(Record { index, bytes });
        }
        let durable = self.0.disk.append(records);
        Runtime::spawn(async move { callback.io_completed(durable.await) });
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let index = last.map(|log_id| log_id.index);
        let above: Vec<u64> = {
            let entries = self.0.entries.borrow();
            entries.keys().copied().filter(|at| Some(*at) > index).collect()
        };
        for at in above {
            self.forget(at);
        }
        self.0.disk.truncate_after(index).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        if self.0.purged.get() >= Some(upto) {
            return Ok(());
        }
        self.0.purged.set(Some(upto));
        let below: Vec<u64> = self
            .0
            .entries
            .borrow()
            .range(..=upto.index)
            .map(|(at, _)| *at)
            .collect();
        for at in below {
            self.forget(at);
        }
        let purged: Bytes = codec::write(&upto);
        self.0.disk.purge(upto.index, purged).await
    }
}
