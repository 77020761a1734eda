//! Disks in memory, which lose at a crash what was not synced.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    io,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;

use super::{Disk, Disks, Durable, Loaded, Record};
use crate::founding::Founding;

enum Operation {
    Vote(Bytes),
    Append(Vec<Record>),
    Truncate(Option<u64>),
    Purge(u64, Bytes),
    Snapshot(Bytes),
}

impl Operation {
    fn apply(self, to: &mut Loaded) {
        match self {
            Self::Vote(vote) => to.vote = Some(vote),
            Self::Append(entries) => to.entries.extend(entries),
            Self::Truncate(index) => to.entries.retain(|entry| Some(entry.index) <= index),
            Self::Purge(index, purged) => {
                to.entries.retain(|entry| entry.index > index);
                to.purged = Some(purged);
            }
            Self::Snapshot(snapshot) => to.snapshot = Some(snapshot),
        }
    }
}

#[derive(Default)]
struct Platter {
    synced: RefCell<Loaded>,
    /// Queued and not yet durable, the oldest first.
    queue: RefCell<VecDeque<(Operation, oneshot::Sender<()>)>>,
    is_syncing: Cell<bool>,
    /// Counts crashes: what a former life had queued is not done by a later one.
    life: Cell<u64>,
    /// A disk that lies about votes, for a test of the tests.
    drops_votes: Cell<bool>,
}

/// A disk of one group. Each operation is durable a while after it was queued.
#[derive(Clone)]
pub struct MemoryDisk {
    platter: Rc<Platter>,
    sync: Duration,
}

impl MemoryDisk {
    /// `sync_us` is how long an operation takes until it is durable. Needs a `LocalSet`.
    pub fn new(sync_us: u64) -> Self {
        Self {
            platter: Rc::default(),
            sync: Duration::from_micros(sync_us),
        }
    }

    /// What was queued and is not durable is lost. Called when the tasks that wait for it are gone.
    pub fn crash(&self) {
        self.platter.life.set(self.platter.life.get() + 1);
        self.platter.is_syncing.set(false);
        self.platter.queue.take();
    }

    /// From now on votes are said to be durable and are not.
    #[doc(hidden)]
    pub fn drop_votes(&self) {
        self.platter.drops_votes.set(true);
    }

    fn queue(&self, operation: Operation) -> Durable {
        let (promise, done) = oneshot::channel();
        self.platter.queue.borrow_mut().push_back((operation, promise));
        if !self.platter.is_syncing.replace(true) {
            tokio::task::spawn_local(sync(Rc::clone(&self.platter), self.sync));
        }
        Box::pin(async move { done.await.map_err(|_| io::Error::other("the disk is gone")) })
    }
}

/// Writes one after another, until nothing waits.
async fn sync(platter: Rc<Platter>, pause: Duration) {
    let life = platter.life.get();
    loop {
        tokio::time::sleep(pause).await;
        if platter.life.get() != life {
            return;
        }
        // All that waits is synced together, as by one writer with group commit.
        let waiting = platter.queue.take();
        for (operation, promise) in waiting {
            let is_dropped = matches!(operation, Operation::Vote(_)) && platter.drops_votes.get();
            if !is_dropped {
                operation.apply(&mut platter.synced.borrow_mut());
            }
            // Whoever waited may be gone.
            let _ = promise.send(());
        }
        if platter.queue.borrow().is_empty() {
            platter.is_syncing.set(false);
            return;
        }
    }
}

impl Disk for MemoryDisk {
    fn load(&self) -> LocalBoxFuture<'_, io::Result<Loaded>> {
        Box::pin(async { Ok(self.platter.synced.borrow().clone()) })
    }

    fn save_vote(&self, vote: Bytes) -> Durable {
        self.queue(Operation::Vote(vote))
    }

    fn append(&self, entries: Vec<Record>) -> Durable {
        self.queue(Operation::Append(entries))
    }

    fn truncate_after(&self, index: Option<u64>) -> Durable {
        self.queue(Operation::Truncate(index))
    }

    fn purge(&self, index: u64, purged: Bytes) -> Durable {
        self.queue(Operation::Purge(index, purged))
    }

    fn save_snapshot(&self, snapshot: Bytes) -> Durable {
        self.queue(Operation::Snapshot(snapshot))
    }
}

/// The disks of a site in memory.
pub struct MemoryDisks {
    disks: RefCell<BTreeMap<Founding, MemoryDisk>>,
    sync_us: u64,
    drops_votes: Cell<bool>,
}

impl MemoryDisks {
    pub fn new(sync_us: u64) -> Self {
        Self {
            disks: RefCell::default(),
            sync_us,
            drops_votes: Cell::new(false),
        }
    }

    /// All disks lose what is not durable.
    pub fn crash(&self) {
        self.disks.borrow().values().for_each(MemoryDisk::crash);
    }

    #[doc(hidden)]
    pub fn drop_votes(&self) {
        self.drops_votes.set(true);
    }

    /// As with new disks.
    #[doc(hidden)]
    pub fn lose(&self) {
        self.disks.borrow_mut().clear();
    }

    /// Whether some text is on the disk of a group for good.
    #[doc(hidden)]
    pub fn holds(&self, founding: &Founding, text: &[u8]) -> bool {
        let disks = self.disks.borrow();
        disks.get(founding).is_some_and(|disk| {
            let synced = disk.platter.synced.borrow();
            let entries = synced.entries.iter().map(|entry| &entry.bytes);
            entries
                .chain(&synced.snapshot)
                .any(|bytes| bytes.windows(text.len()).any(|window| window == text))
        })
    }
}

impl Disks for MemoryDisks {
    fn groups(&self) -> LocalBoxFuture<'_, io::Result<Vec<Founding>>> {
        Box::pin(async { Ok(self.disks.borrow().keys().cloned().collect()) })
    }

    fn open<'a>(&'a self, founding: &'a Founding) -> LocalBoxFuture<'a, io::Result<Rc<dyn Disk>>> {
        Box::pin(async {
            let mut disks = self.disks.borrow_mut();
            let disk = disks
                .entry(founding.clone())
                .or_insert_with(|| MemoryDisk::new(self.sync_us));
            if self.drops_votes.get() {
                disk.drop_votes();
            }
            let disk: Rc<dyn Disk> = Rc::new(disk.clone());
            Ok(disk)
        })
    }
}
