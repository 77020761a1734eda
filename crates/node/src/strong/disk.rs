//! What this site has promised in its groups, in its store. What is written holds callers' credentials: it is sealed.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use cheops_store::{
    Error, Read as _, Sealed, Span, Store, WriteSession,
    tables::{Blob, GroupLog, GroupState},
};
use cheops_strong::{Disk, Disks, Durable, Founding, GroupId, Loaded, Record};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
    time::sleep,
};

use crate::{
    core::Core,
    pack::{pack, unpack},
};

/// Where what is sealed here belongs: it opens nowhere else.
const PLACE: &[u8] = b"group";
/// The store has too much to do: its queue is worked off soon.
const AGAIN: Duration = Duration::from_millis(2);

// Rows beside the log.
const FOUNDING: &str = "founding";
const VOTE: &str = "vote";
const PURGED: &str = "purged";
const SNAPSHOT: &str = "snapshot";
/// This site was too far behind, and got a snapshot of the log: there are outcomes of which it was not told.
const SKIPPED: &str = "skipped";

/// The founders of a group, and the life of the store that has promised something in it.
#[derive(Serialize, Deserialize)]
struct Home {
    founding: Founding,
    incarnation: u64,
}

/// The groups that this life of the store has promised something in.
pub(super) fn foundings(core: &Core) -> io::Result<Vec<Founding>> {
    let now = |home: &Home| home.incarnation == core.life.incarnation();
    let homes = homes(core)?.into_iter().filter(now);
    Ok(homes.map(|home| home.founding).collect())
}

/// The groups of which this site was not told all.
pub(super) fn skipped(core: &Core) -> HashSet<GroupId> {
    let rows = core
        .store
        .read()
        .and_then(|read| read.scan::<GroupState>(&Span::all(), usize::MAX));
    let rows = rows.unwrap_or_default().into_iter();
    rows.filter(|((_, what), _)| what == SKIPPED)
        .filter_map(|((group, _), _)| group.parse().ok())
        .collect()
}

/// Notes that for good.
pub(super) async fn skip(core: &Core, group: &GroupId) {
    loop {
        let key = (group.to_string(), SKIPPED.to_owned());
        let written = core
            .store
            .write(move |session| session.put::<GroupState>(&key, &Blob(Vec::new())));
        if let Ok(pending) = written
            && pending.await.is_ok()
        {
            return;
        }
        sleep(AGAIN).await;
    }
}

fn homes(core: &Core) -> io::Result<Vec<Home>> {
    let read = core.store.read().map_err(io::Error::other)?;
    let rows = read.scan::<GroupState>(&Span::all(), usize::MAX);
    let rows = rows.map_err(io::Error::other)?;
    let homes = rows.into_iter().filter(|((_, what), _)| what == FOUNDING);
    // One that cannot be read is of a later version: its group is not joined.
    Ok(homes.filter_map(|(_, row)| unpack(&row.0).ok()).collect())
}

pub(super) struct StoreDisks {
    core: Arc<Core>,
    open: RefCell<BTreeMap<GroupId, Rc<StoreDisk>>>,
}

impl StoreDisks {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            open: RefCell::default(),
        }
    }

    fn is_of_now(&self, home: &Home) -> bool {
        home.incarnation == self.core.life.incarnation()
    }
}

impl Disks for StoreDisks {
    fn groups(&self) -> futures_util::future::LocalBoxFuture<'_, io::Result<Vec<Founding>>> {
        Box::pin(async { foundings(&self.core) })
    }

    fn open<'a>(
        &'a self,
        founding: &'a Founding,
    ) -> futures_util::future::LocalBoxFuture<'a, io::Result<Rc<dyn Disk>>> {
        Box::pin(async move {
            let id = GroupId::of(founding);
            if let Some(disk) = self.open.borrow().get(&id) {
                return Ok(Rc::clone(disk) as Rc<dyn Disk>);
            }
            let homes = homes(&self.core)?;
            let known = homes.iter().find(|home| home.founding == *founding);
            let disk = Rc::new(StoreDisk::start(&self.core, id));
            if !known.is_some_and(|home| self.is_of_now(home)) {
                // What an earlier life of this store has promised binds somebody who is no member any more.
                let home = Home {
                    founding: founding.clone(),
                    incarnation: self.core.life.incarnation(),
                };
                disk.queue(Change::Begin(pack(&home).unwrap_or_default())).await?;
            }
            self.open.borrow_mut().insert(id, Rc::clone(&disk));
            Ok(disk as Rc<dyn Disk>)
        })
    }
}

/// One change of a group's rows.
#[derive(Clone)]
enum Change {
    Begin(Vec<u8>),
    Put(&'static str, Vec<u8>),
    Append(Arc<Vec<(u64, Vec<u8>)>>),
    TruncateAfter(Option<u64>),
    Purge(u64, Vec<u8>),
}

impl Change {
    fn apply(self, session: &mut WriteSession<'_>, group: &str) -> Result<(), Error> {
        let group = group.to_owned();
        let state = |what: &str| (group.clone(), what.to_owned());
        match self {
            Self::Begin(home) => {
                drop_log(session, &Span::under(&group))?;
                for what in [VOTE, PURGED, SNAPSHOT, SKIPPED] {
                    session.delete::<GroupState>(&state(what))?;
                }
                session.put::<GroupState>(&state(FOUNDING), &Blob(home))
            }
            Self::Put(what, bytes) => session.put::<GroupState>(&state(what), &Blob(bytes)),
            Self::Append(entries) => {
                for (index, bytes) in entries.iter() {
                    session.put::<GroupLog>(&(group.clone(), *index), &Blob(bytes.clone()))?;
                }
                Ok(())
            }
            Self::TruncateAfter(index) => {
                let first = index.map_or(0, |index| index.saturating_add(1));
                drop_log(session, &Span::under(&group).from(&(group.clone(), first)))
            }
            Self::Purge(index, purged) => {
                let end = (group.clone(), index.saturating_add(1));
                drop_log(session, &Span::under(&group).before(&end))?;
                session.put::<GroupState>(&state(PURGED), &Blob(purged))
            }
        }
    }
}

fn drop_log(session: &mut WriteSession<'_>, span: &Span) -> Result<(), Error> {
    for (key, _) in session.scan::<GroupLog>(span, usize::MAX)? {
        session.delete::<GroupLog>(&key)?;
    }
    Ok(())
}

/// The rows of one group. Its changes are queued in their order, and wait where the store has too much to do.
struct StoreDisk {
    core: Arc<Core>,
    group: String,
    changes: mpsc::UnboundedSender<(Change, oneshot::Sender<io::Result<()>>)>,
}

impl StoreDisk {
    fn start(core: &Arc<Core>, id: GroupId) -> Self {
        let (changes, queue) = mpsc::unbounded_channel();
        let group = id.to_string();
        spawn_local(pump(core.store.clone(), group.clone(), queue));
        Self {
            core: Arc::clone(core),
            group,
            changes,
        }
    }

    fn queue(&self, change: Change) -> Durable {
        let (done, durable) = oneshot::channel();
        let _ = self.changes.send((change, done));
        Box::pin(async move {
            let closed = || io::Error::other("the store is closed");
            durable.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn seal(&self, clear: &[u8]) -> io::Result<Vec<u8>> {
        let entropy = |bytes: &mut [u8]| -> io::Result<()> {
            self.core.surroundings.fill(bytes);
            Ok(())
        };
        let sealed = self.core.key.seal(PLACE, clear, &entropy);
        sealed.map(Sealed::into_bytes).map_err(io::Error::other)
    }

    fn open(&self, sealed: Vec<u8>) -> io::Result<Bytes> {
        let clear = self.core.key.open_sealed(PLACE, &Sealed::from_bytes(sealed));
        clear.map(Bytes::from).map_err(io::Error::other)
    }

    fn read(&self) -> io::Result<Loaded> {
        let read = self.core.store.read().map_err(io::Error::other)?;
        let state = |what: &str| {
            let row = read.get::<GroupState>(&(self.group.clone(), what.to_owned()));
            row.map(|row| row.map(|blob| blob.0)).map_err(io::Error::other)
        };
        let log = read.scan::<GroupLog>(&Span::under(&self.group), usize::MAX);
        let mut entries = Vec::new();
        for ((_, index), row) in log.map_err(io::Error::other)? {
            let bytes = self.open(row.0)?;
            entries.push(Record { index, bytes });
        }
        Ok(Loaded {
            vote: state(VOTE)?.map(Bytes::from),
            purged: state(PURGED)?.map(Bytes::from),
            snapshot: state(SNAPSHOT)?.map(|sealed| self.open(sealed)).transpose()?,
            entries,
        })
    }
}

/// Hands changes to the store in their order, without waiting for one to be durable before the next.
async fn pump(
    store: Store,
    group: String,
    mut queue: mpsc::UnboundedReceiver<(Change, oneshot::Sender<io::Result<()>>)>,
) {
    while let Some((change, done)) = queue.recv().await {
        let written = loop {
            let (change, group) = (change.clone(), group.clone());
            match store.write(move |session| change.apply(session, &group)) {
                Err(Error::Busy { .. }) => sleep(AGAIN).await,
                written => break written,
            }
        };
        match written {
            Ok(pending) => {
                spawn_local(async move {
                    // Whoever waits may have gone.
                    let _ = done.send(pending.await.map_err(io::Error::other));
                });
            }
            Err(error) => drop(done.send(Err(io::Error::other(error)))),
        }
    }
}

fn failed(error: io::Error) -> Durable {
    Box::pin(async { Err(error) })
}

impl Disk for StoreDisk {
    fn load(&self) -> futures_util::future::LocalBoxFuture<'_, io::Result<Loaded>> {
        Box::pin(async { self.read() })
    }

    fn save_vote(&self, vote: Bytes) -> Durable {
        self.queue(Change::Put(VOTE, vote.into()))
    }

    fn append(&self, entries: Vec<Record>) -> Durable {
        let sealed: io::Result<Vec<_>> = entries
            .iter()
            .map(|entry| Ok((entry.index, self.seal(&entry.bytes)?)))
            .collect();
        match sealed {
            Ok(sealed) => self.queue(Change::Append(Arc::new(sealed))),
            Err(error) => failed(error),
        }
    }

    fn truncate_after(&self, index: Option<u64>) -> Durable {
        self.queue(Change::TruncateAfter(index))
    }

    fn purge(&self, index: u64, purged: Bytes) -> Durable {
        self.queue(Change::Purge(index, purged.into()))
    }

    fn save_snapshot(&self, snapshot: Bytes) -> Durable {
        match self.seal(&snapshot) {
            Ok(sealed) => self.queue(Change::Put(SNAPSHOT, sealed)),
            Err(error) => failed(error),
        }
    }
}
