//! What a crash leaves of the store's file, at every access to the disk: all that was acknowledged,
//! nothing by halves, indexes that fit their tables.

#[path = "crash/disk.rs"]
mod disk;
#[path = "crash/workload.rs"]
mod workload;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use cheops_store::{Error, LogEngine, RedbEngine, Store};
use disk::{Access, Cuts, Disk, Images, Loss, Random};
use redb::StorageBackend;
use workload::{Model, Workload, options};

const SESSIONS: u64 = 60;
/// So short that the logs change places again and again.
const LOG_BYTES: u64 = 30_000;

fn open(disk: &Disk) -> Store {
    try_open(disk).unwrap_or_else(|error| panic!("the store does not open: {error}"))
}

fn try_open(disk: &Disk) -> Result<Store, cheops_store::OpenError> {
    try_open_with_cache(disk, 1 << 20)
}

fn try_open_with_cache(disk: &Disk, cache_bytes: usize) -> Result<Store, cheops_store::OpenError> {
    let tables = disk.clone();
    let tables = RedbEngine::with_backend(cache_bytes, move || Ok(Box::new(tables.file(0))))?;
    let logs = [
        Box::new(disk.file(1)) as Box<dyn StorageBackend>,
        Box::new(disk.file(2)),
    ];
    Store::with_engine(LogEngine::with_files(tables, logs, 1, LOG_BYTES)?, &options())
}

/// The workload's accesses, and after how many of them each session had been acknowledged.
struct Recording {
    log: Vec<(usize, Access)>,
    acknowledged: Vec<usize>,
    models: Vec<Model>,
}

fn record(seed: u64) -> Recording {
    let disk = Disk::default();
    let store = open(&disk);
    let created = disk.position();
    let mut workload = Workload::new(seed);
    let mut acknowledged = vec![created];
    let mut models = vec![Model::default()];
    for _ in 0..SESSIONS {
        workload.session(&store).wait().unwrap();
        acknowledged.push(disk.position());
        models.push(workload.model().clone());
    }
    // Closing is a commit of its own, and can crash too.
    drop(store);
    Recording {
        log: disk.log(),
        acknowledged,
        models,
    }
}

impl Recording {
    /// Sessions that were acknowledged when the machine went down.
    fn acknowledged(&self, cut: usize) -> usize {
        self.acknowledged
            .iter()
            .take_while(|at| **at <= cut)
            .count()
            .saturating_sub(1)
    }

    /// Before that nobody has been told that there is a store.
    fn is_created(&self, cut: usize) -> bool {
        self.acknowledged[0] <= cut
    }

    fn check(&self, store: &Store, cut: usize, what: &str) {
        let found = workload::read(store);
        let sessions = found.sessions as usize;
        assert!(
            sessions >= self.acknowledged(cut),
            "{what}: session {sessions} is the last one, {} were acknowledged",
            self.acknowledged(cut)
        );
        assert!(
            found == self.models[sessions],
            "{what}: session {sessions} is not whole"
        );
        workload::check_indexes(store);
    }
}

#[test]
fn a_killed_process_loses_nothing_at_any_access() {
    cut_everywhere(1, Loss::Nothing, 1);
}

#[test]
fn a_power_cut_that_loses_all_unsynced_writes_loses_no_session() {
    cut_everywhere(2, Loss::Everything, 1);
}

#[test]
fn a_power_cut_that_tears_writes_loses_no_session() {
    cut_everywhere(3, Loss::Torn, 1);
}

#[test]
#[ignore = "takes minutes"]
fn many_power_cuts_lose_no_session() {
    for seed in 100..110 {
        cut_everywhere(seed, Loss::Torn, 4);
    }
}

fn cut_everywhere(seed: u64, loss: Loss, rounds: u64) {
    let recording = record(seed);
    let mut random = Random(seed);
    let mut cuts = Cuts::new(&Images::default(), &recording.log);
    let mut checked = 0;
    for cut in 0..=recording.log.len() {
        for round in 0..rounds {
            let image = cuts.at(cut, loss, &mut random);
            let what = format!(
                "seed {seed}, {loss:?}, cut {cut} of {}, round {round}",
                recording.log.len()
            );
            match try_open(&Disk::with(image)) {
                Ok(store) => {
                    checked += 1;
                    recording.check(&store, cut, &what);
                    // And it can be written to.
                    if cut % 16 == 0 {
                        Workload::continued(seed, &store).session(&store).wait().unwrap();
                        workload::check_indexes(&store);
                    }
                }
                Err(error) => assert!(!recording.is_created(cut), "{what}: {error}"),
            }
        }
    }
    assert!(
        checked > recording.acknowledged.len(),
        "too few images were checked: {checked}"
    );
    let sessions = || recording.log[recording.acknowledged[0]..].iter();
    assert!(
        sessions().any(|(file, access)| *file == 0 && matches!(access, Access::SetLength(_))),
        "the tables never grew"
    );
    for log in [1, 2] {
        let begins = |(file, access): &&(usize, Access)| {
            *file == log && matches!(access, Access::Write { offset: 0, .. })
        };
        assert!(
            sessions().filter(begins).count() > 1,
            "log {log} was not used again"
        );
    }
}

/// A machine that goes down again while it recovers.
#[test]
fn a_second_crash_during_recovery_loses_no_session() {
    let recording = record(4);
    let mut random = Random(4);
    let created = recording.acknowledged[0];
    for _ in 0..40 {
        let cut = created + random.below((recording.log.len() - created) as u64) as usize;
        let first = Cuts::new(&Images::default(), &recording.log).at(cut, Loss::Torn, &mut random);
        let disk = Disk::with(first.clone());
        drop(open(&disk));
        let recovery = disk.log();
        let mut cuts = Cuts::new(&first, &recovery);
        for again in 0..=recovery.len() {
            let second = cuts.at(again, Loss::Torn, &mut random);
            let what = format!("cut {cut}, and {again} of {} during recovery", recovery.len());
            let store = try_open(&Disk::with(second)).unwrap_or_else(|error| panic!("{what}: {error}"));
            recording.check(&store, cut, &what);
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_serves_reads() {
    let mut refused = 0;
    for blocks in 0..20 {
        let disk = Disk::default();
        let store = open(&disk);
        let mut workload = Workload::new(5);
        workload.session(&store).wait().unwrap();
        disk.full_after(Some(blocks));
        for _ in 0..20 {
            let before = workload.model().clone();
            match workload.session(&store).wait() {
                Ok(()) => assert!(workload::read(&store) == *workload.model()),
                Err(Error::Full) => {
                    refused += 1;
                    assert!(workload::read(&store) == before);
                    workload = Workload::continued(refused, &store);
                }
                Err(error) => panic!("after {blocks} blocks: {error}"),
            }
            workload::check_indexes(&store);
        }
        disk.full_after(None);
        workload.session(&store).wait().unwrap();
        drop(store);
        assert!(
            workload::read(&open(&disk)) == *workload.model(),
            "after {blocks} blocks"
        );
    }
    assert!(refused > 20, "the disk was never full");
}

/// redb serves nothing after an error until it is opened anew; whoever reads must not notice.
#[test]
fn reads_go_on_while_writes_find_the_disk_full() {
    let disk = Disk::default();
    // Without a cache every read is an access to the disk.
    let store = try_open_with_cache(&disk, 0).unwrap();
    let mut workload = Workload::new(6);
    for _ in 0..10 {
        workload.session(&store).wait().unwrap();
    }
    disk.full_after(Some(0));
    let before = workload.model();
    let is_over = AtomicBool::new(false);
    let mut refused = 0;
    let reads = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::SeqCst) {
                assert!(workload::read(&store) == *before);
                reads += 1;
            }
            reads
        });
        while refused < 50 && !reader.is_finished() {
            let outcome = workload::too_large(&store).wait();
            if outcome != Err(Error::Full) {
                break;
            }
            refused += 1;
        }
        is_over.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert!(refused == 50 && reads > 0, "{refused} refused, {reads} reads");
}

/// The test of the tests: with acknowledgement before the sync, the check must notice.
#[test]
fn an_early_acknowledgement_would_be_noticed() {
    let mut recording = record(7);
    let last_sync = |log: &[(usize, Access)], at: usize| {
        log[..at]
            .iter()
            .rposition(|(file, access)| *file > 0 && matches!(access, Access::Sync))
            .unwrap()
    };
    for at in &mut recording.acknowledged[1..] {
        *at = last_sync(&recording.log, *at);
    }
    let mut random = Random(7);
    let lost = recording.acknowledged[1..].iter().any(|cut| {
        let image = Cuts::new(&Images::default(), &recording.log).at(*cut, Loss::Everything, &mut random);
        (workload::read(&open(&Disk::with(image))).sessions as usize) < recording.acknowledged(*cut)
    });
    assert!(lost);
}
