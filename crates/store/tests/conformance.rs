//! Both engines run the one suite.

use cheops_store::{MemoryEngine, RedbEngine, conformance};

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
