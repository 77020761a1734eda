use std::{io, sync::Mutex as StdMutex};

use super::*;
use crate::engine::MemoryEngine;

/// A file in memory that fails when told to. Handles share it.
#[derive(Debug, Clone, Default)]
struct Shelf(Arc<StdMutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Shelf {
    fn with(bytes: Vec<u8>) -> Self {
        let shelf = Self::default();
        shelf.0.lock().unwrap().bytes = bytes;
        shelf
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    fn fill(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }
}

impl StorageBackend for Shelf {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = offset as usize;
        out.copy_from_slice(&self.0.lock().unwrap().bytes[from..from + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().bytes.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (from, mut content) = (offset as usize, self.0.lock().unwrap());
        // Half of it, as a disk does that has no room for more.
        let fits = if content.is_full {
            data.len() / 2
        } else {
            data.len()
        };
        let end = content.bytes.len().max(from + fits);
        content.bytes.resize(end, 0);
        content.bytes[from..from + fits].copy_from_slice(&data[..fits]);
        if content.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// What is on the disk: the engine behind, and both files.
#[derive(Clone, Default)]
struct Disk {
    behind: MemoryEngine,
    files: [Shelf; 2],
}

const FULL_BYTES: u64 = 4096;

impl Disk {
    fn open(&self) -> LogEngine {
        self.open_with(FULL_BYTES)
    }

    fn open_with(&self, full_bytes: u64) -> LogEngine {
        let files = self
            .files
            .clone()
            .map(|file| Box::new(file) as Box<dyn StorageBackend>);
        LogEngine::with_files(self.behind.clone(), files, 7, full_bytes).unwrap()
    }

    /// What a killed process leaves of it.
    fn crashed(&self) -> Self {
        Self {
            behind: self.behind.crashed(),
            files: self.files.clone().map(|file| Shelf::with(file.bytes())),
        }
    }
}

fn put(engine: &LogEngine, key: u32, value: &[u8]) -> Result<(), EngineError> {
    let mut batch = engine.batch()?;
    batch.put("t", &key.to_be_bytes(), value)?;
    batch.commit()
}

fn keys(engine: &LogEngine) -> Vec<u32> {
    let mut keys = Vec::new();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let snapshot = engine.snapshot().unwrap();
    let scanned = snapshot.scan("t", all, &mut |key, _| {
        keys.push(u32::from_be_bytes(key.try_into().unwrap()));
        std::ops::ControlFlow::Continue(())
    });
    scanned.unwrap();
    assert_eq!(snapshot.count("t").unwrap(), keys.len() as u64);
    keys
}

#[test]
fn commits_survive_in_the_log_alone() {
    let disk = Disk::default();
    let engine = disk.open();
    for key in 0..5 {
        put(&engine, key, b"value").unwrap();
    }
    let crashed = disk.crashed();
    assert_eq!(crashed.behind.snapshot().unwrap().count("t"), Ok(0));
    assert_eq!(keys(&crashed.open()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_clean_end_leaves_everything_behind() {
    let disk = Disk::default();
    let engine = disk.open();
    for key in 0..5 {
        put(&engine, key, b"value").unwrap();
    }
    drop(engine);
    assert_eq!(disk.behind.snapshot().unwrap().count("t"), Ok(5));
    assert_eq!(keys(&disk.open()), [0, 1, 2, 3, 4]);
}

#[test]
fn files_are_used_again_and_do_not_grow_without_end() {
    let disk = Disk::default();
    let engine = disk.open();
    for key in 0..1000 {
        put(&engine, key, &[1; 100]).unwrap();
        if key % 97 == 0 {
            let expected: Vec<_> = (0..=key).collect();
            assert_eq!(keys(&disk.crashed().open()), expected);
        }
    }
    for file in &disk.files {
        assert!(file.bytes().len() <= 2 << 20);
    }
}

/// Whatever the last commit has left of itself, those before it are there and it is whole or not there at all; then the
/// log goes on.
#[test]
fn a_tail_that_is_torn_at_any_byte_takes_no_other_commit_along() {
    let disk = Disk::default();
    let engine = disk.open_with(1 << 20);
    let mut before = Vec::new();
    for key in 0..4 {
        before = disk.files[0].bytes();
        put(&engine, key, b"value").unwrap();
    }
    let after = disk.files[0].bytes();
    let changed: Vec<_> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    let (first, last) = (changed[0], changed[changed.len() - 1]);
    for cut in first..=last + 1 {
        let torn = [&after[..cut], &before[cut..]].concat();
        let left = Disk {
            behind: disk.behind.crashed(),
            files: [Shelf::with(torn), Shelf::default()],
        };
        let engine = left.open();
        let expected: Vec<u32> = if cut > last {
            vec![0, 1, 2, 3]
        } else {
            vec![0, 1, 2]
        };
        assert_eq!(keys(&engine), expected, "cut at {cut}");
        put(&engine, 9, b"later").unwrap();
        let expected = [expected, vec![9]].concat();
        assert_eq!(
            keys(&left.crashed().open()),
            expected,
            "cut at {cut}, and gone on"
        );
    }
}

#[test]
fn an_append_that_failed_is_not_there() {
    let disk = Disk::default();
    let engine = disk.open();
    put(&engine, 1, b"value").unwrap();
    for file in &disk.files {
        file.fill(true);
    }
    assert_eq!(put(&engine, 2, &[2; 300]), Err(EngineError::NoSpace));
    for file in &disk.files {
        file.fill(false);
    }
    // Whoever freezes the log first must not leave it in there.
    let shared = &engine.shared;
    assert_eq!(shared.freeze(&mut shared.logs()), Ok(true));
    engine.reopen().unwrap();
    assert_eq!(keys(&engine), [1]);
    put(&engine, 3, b"value").unwrap();
    assert_eq!(keys(&engine), [1, 3]);
    assert_eq!(keys(&disk.crashed().open()), [1, 3]);
}

#[test]
fn what_cannot_be_applied_waits_and_then_is() {
    let disk = Disk::default();
    let engine = disk.open();
    put(&engine, 0, b"value").unwrap();
    for _ in 0..3 {
        disk.behind.fail_commit(EngineError::NoSpace, false);
    }
    let mut refused = 0;
    let mut written = vec![0];
    for key in 1..1000 {
        match put(&engine, key, &[1; 100]) {
            Ok(()) => written.push(key),
            Err(error) => {
                assert_eq!(error, EngineError::NoSpace);
                refused += 1;
            }
        }
    }
    assert!(refused <= 3, "{refused}");
    assert_eq!(keys(&engine), written);
    drop(engine);
    assert_eq!(keys(&disk.open()), written);
}

/// Somebody has put back a copy of the tables, and the logs are of later.
#[test]
fn logs_that_an_older_copy_cannot_follow_are_not_mixed_with_it() {
    let disk = Disk::default();
    let engine = disk.open();
    put(&engine, 0, b"value").unwrap();
    drop(engine);
    let copy = disk.behind.crashed();
    let engine = disk.open();
    for key in 1..1000 {
        put(&engine, key, &[1; 100]).unwrap();
    }
    let back = Disk {
        behind: copy,
        files: disk.crashed().files,
    };
    drop(engine);
    let engine = back.open();
    assert_eq!(keys(&engine), [0]);
    put(&engine, 5, b"value").unwrap();
    assert_eq!(keys(&back.crashed().open()), [0, 5]);
}

#[test]
fn logs_of_another_store_are_not_taken() {
    let disk = Disk::default();
    put(&disk.open(), 0, b"value").unwrap();
    let files = disk
        .crashed()
        .files
        .map(|file| Box::new(file) as Box<dyn StorageBackend>);
    let other = LogEngine::with_files(MemoryEngine::default(), files, 8, FULL_BYTES).unwrap();
    assert_eq!(keys(&other), [0_u32; 0]);
}

/// A batch that was dropped by a panic wrote nothing, and what follows goes on, to the end.
#[test]
fn a_panic_inside_a_batch_leaves_an_engine_that_can_be_used_and_closed() {
    let disk = Disk::default();
    let engine = disk.open();
    put(&engine, 1, b"value").unwrap();
    let panicked = std::thread::scope(|scope| {
        let broken = scope.spawn(|| {
            let mut batch = engine.batch().unwrap();
            batch.put("t", b"half", b"x").unwrap();
            panic!("a session broke");
        });
        broken.join()
    });
    assert!(panicked.is_err());
    put(&engine, 2, b"value").unwrap();
    assert_eq!(keys(&engine), [1, 2]);
    drop(engine);
    assert_eq!(keys(&disk.open()), [1, 2]);
}
