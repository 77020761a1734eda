//! All engines run the one suite.

use cheops_store::{LogEngine, MemoryEngine, RedbEngine, conformance};

#[test]
fn memory() {
    conformance::run(MemoryEngine::default, |engine| engine.crashed());
}

#[test]
fn redb() {
    let directory = tempfile::tempdir().unwrap();
    let mut engines = 0;
    let path = |number: u32| directory.path().join(number.to_string());
    let last = std::cell::Cell::new(0);
    conformance::run(
        || {
            engines += 1;
            last.set(engines);
            RedbEngine::open(&path(engines), 1 << 20).unwrap()
        },
        |engine| {
            // A copy of the file while it is open: what a killed process leaves behind.
            let crashed = path(10_000 + last.get());
            std::fs::copy(path(last.get()), &crashed).unwrap();
            drop(engine);
            RedbEngine::open(&crashed, 1 << 20).unwrap()
        },
    );
}

/// With a log that is always full, so that all of its rows are on their way all the time, and with one that never is.
#[test]
fn a_log() {
    for full_bytes in [1, u64::MAX / 2] {
        let directory = tempfile::tempdir().unwrap();
        let last = std::cell::Cell::new(0);
        let open = |number: u32| {
            let data = directory.path().join(number.to_string());
            std::fs::create_dir_all(&data).unwrap();
            let tables = RedbEngine::open(&data.join("store.redb"), 1 << 20).unwrap();
            LogEngine::open(tables, &data, 1, full_bytes).unwrap()
        };
        conformance::run(
            || {
                last.set(last.get() + 1);
                open(last.get())
            },
            |engine| {
                // Its files while they are open, those first that are written last.
                let (from, to) = (last.get(), 10_000 + last.get());
                let data = |number: u32| directory.path().join(number.to_string());
                std::fs::create_dir_all(data(to)).unwrap();
                for name in ["store.redb", "store.log.0", "store.log.1"] {
                    std::fs::copy(data(from).join(name), data(to).join(name)).unwrap();
                }
                drop(engine);
                open(to)
            },
        );
    }
}
