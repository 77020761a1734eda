use std::{cell::Cell, rc::Rc};

use futures_util::future::LocalBoxFuture;
use openraft::{
    StorageError,
    testing::log::{StoreBuilder, Suite},
    type_config::TypeConfigExt,
};
use tokio::task::LocalSet;

use super::*;
use crate::{
    command::{Intent, Verdict},
    disk::{Disks, MemoryDisk, MemoryDisks, conformance::conformance},
    flaws::Flaws,
    founding::{Founding, GroupId},
    machine::Machine,
    member::Member,
    sets::{Decision, Sets},
};

/// Concludes at once.
struct Nothing;

impl Sets for Nothing {
    fn decide<'a>(&'a self, _: &'a GroupId, _: &'a Intent) -> LocalBoxFuture<'a, Decision> {
        unreachable!("nobody leads")
    }

    fn conclude<'a>(&'a self, _: &'a GroupId, _: &'a Intent, _: &'a Verdict) -> LocalBoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn executed<'a>(&'a self, _: &'a GroupId, _: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn skipped<'a>(&'a self, _: &'a GroupId) -> LocalBoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// Runs a test on one thread, where time passes by itself.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, Runtime::scope(1, test));
}

struct Builder;

impl StoreBuilder<Types, LogStore, Machine> for Builder {
    async fn build(&self) -> Result<((), LogStore, Machine), StorageError<Types>> {
        let disk: Rc<dyn Disk> = Rc::new(MemoryDisk::new(10));
        let id = GroupId::of(&Founding::of([Member::from(1).site]));
        let log = LogStore::new(Rc::clone(&disk), &Loaded::default(), false).unwrap();
        let machine = Machine::new(id, disk, Rc::new(Nothing), None, None, Flaws::default()).unwrap();
        Ok(((), log, machine))
    }
}

#[test]
fn log_and_machine_are_as_openraft_wants_them() {
    run(async { Suite::test_all(Builder).await.unwrap() });
}

#[test]
fn the_disk_in_memory_conforms() {
    run(async {
        let disks = Rc::new(MemoryDisks::new(100));
        conformance(async || Shared(Rc::clone(&disks))).await;
    });
}

/// The same disks after each restart.
struct Shared(Rc<MemoryDisks>);

impl Disks for Shared {
    fn groups(&self) -> LocalBoxFuture<'_, io::Result<Vec<Founding>>> {
        self.0.groups()
    }

    fn open<'a>(&'a self, founding: &'a Founding) -> LocalBoxFuture<'a, io::Result<Rc<dyn Disk>>> {
        self.0.open(founding)
    }
}

#[test]
fn a_log_comes_back_as_it_was_synced() {
    run(async {
        let disk = MemoryDisk::new(100);
        let shared: Rc<dyn Disk> = Rc::new(disk.clone());
        let mut log = LogStore::new(Rc::clone(&shared), &Loaded::default(), false).unwrap();
        let vote = Vote::new(3, Member::from(1));
        log.save_vote(&vote).await.unwrap();
        let synced = Rc::new(Cell::new(0));
        for index in 0..4 {
            let entry = openraft::testing::blank_ent::<Types>(1, Member::from(1), index);
            let (done, is_done) = Types::oneshot();
            log.append([entry], IOFlushed::signal(done)).await.unwrap();
            if index < 3 {
                is_done.await.unwrap().unwrap();
                synced.set(synced.get() + 1);
            }
        }
        assert_eq!((log.len(), synced.get()), (4, 3));
        disk.crash();
        let loaded = shared.load().await.unwrap();
        let log = LogStore::new(shared, &loaded, false).unwrap();
        assert_eq!((log.len(), log.vote()), (3, Some(vote)));
        assert_eq!(log.last().map(|last| last.index), Some(2));
    });
}
