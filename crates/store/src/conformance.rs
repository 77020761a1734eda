//! What every engine must do, as one suite. Panics at the first thing that is not so.

use std::ops::{Bound, ControlFlow};

use crate::engine::{Batch, Engine, KeyRange, Snapshot};

const ALL: KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Runs the whole suite. `engine` gives an empty one each time; `crash` gives what a machine would
/// find after one went down at this moment.
pub fn run<E: Engine>(mut engine: impl FnMut() -> E, crash: impl Fn(E) -> E) {
    an_unwritten_table_is_empty(&engine());
    rows_are_found_replaced_and_deleted(&engine());
    tables_are_apart(&engine());
    rows_are_ordered_by_bytes(&engine());
    ranges_have_their_bounds(&engine());
    a_scan_stops_when_told(&engine());
    a_batch_sees_its_changes_and_nobody_else_does(&engine());
    a_dropped_batch_never_was(&engine());
    a_snapshot_stays_as_it_was(&engine());
    batches_wait_for_each_other(&engine());
    large_values_and_odd_keys_come_back(&engine());
    reopening_loses_nothing(&engine());
    commits_survive_a_crash(engine(), &crash);
}

fn an_unwritten_table_is_empty(engine: &impl Engine) {
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.get("none", b"key").unwrap(), None);
    assert_eq!(rows(&*snapshot, "none", ALL), []);
    assert_eq!(snapshot.count("none"), Ok(0));
    let mut batch = engine.batch().unwrap();
    assert_eq!(batch.get("none", b"key").unwrap(), None);
    batch.delete("none", b"key").unwrap();
}

fn rows_are_found_replaced_and_deleted(engine: &impl Engine) {
    change(engine, |batch| {
        batch.put("t", b"a", b"1").unwrap();
        batch.put("t", b"b", b"2").unwrap();
    });
    change(engine, |batch| {
        batch.put("t", b"a", b"3").unwrap();
        for key in [b"b", b"b", b"c"] {
            batch.delete("t", key).unwrap();
            assert_eq!(batch.get("t", key).unwrap(), None);
        }
    });
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(rows(&*snapshot, "t", ALL), [row(b"a", b"3")]);
    assert_eq!(snapshot.count("t"), Ok(1));
}

fn tables_are_apart(engine: &impl Engine) {
    change(engine, |batch| {
        batch.put("one", b"k", b"1").unwrap();
        batch.put("two", b"k", b"2").unwrap();
    });
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.get("one", b"k").unwrap().unwrap(), b"1");
    assert_eq!(snapshot.get("two", b"k").unwrap().unwrap(), b"2");
}

fn rows_are_ordered_by_bytes(engine: &impl Engine) {
    let mut keys: Vec<Vec<u8>> = (0..=255_u8)
        .flat_map(|byte| [vec![byte], vec![byte, 0], vec![0, byte]])
        .collect();
    change(engine, |batch| {
        for key in keys.iter().rev() {
            batch.put("t", key, b"").unwrap();
        }
    });
    keys.sort();
    keys.dedup();
    let found: Vec<_> = rows(&*engine.snapshot().unwrap(), "t", ALL)
        .into_iter()
        .map(|(key, _)| key)
        .collect();
    assert_eq!(found, keys);
}

fn ranges_have_their_bounds(engine: &impl Engine) {
    use Bound::{Excluded, Included, Unbounded};
    change(engine, |batch| {
        for key in [b"a", b"b", b"c", b"d"] {
            batch.put("t", key, b"").unwrap();
        }
    });
    let cases: [(KeyRange<'_>, &[u8]); 8] = [
        ((Included(b"b"), Included(b"c")), b"bc"),
        ((Included(b"b"), Excluded(b"c")), b"b"),
        ((Excluded(b"b"), Unbounded), b"cd"),
        ((Unbounded, Excluded(b"b")), b"a"),
        ((Included(b"aa"), Included(b"bb")), b"b"),
        ((Excluded(b"b"), Excluded(b"b")), b""),
        ((Included(b"c"), Included(b"b")), b""),
        ((Included(b"c"), Excluded(b"b")), b""),
    ];
    let snapshot = engine.snapshot().unwrap();
    for (range, expected) in cases {
        let found: Vec<u8> = rows(&*snapshot, "t", range)
            .into_iter()
            .flat_map(|(key, _)| key)
            .collect();
        assert_eq!(found, expected, "{range:?}");
    }
}

fn a_scan_stops_when_told(engine: &impl Engine) {
    change(engine, |batch| {
        for key in 0..10_u8 {
            batch.put("t", &[key], b"").unwrap();
        }
    });
    let mut seen = 0;
    let scan = engine.snapshot().unwrap().scan("t", ALL, &mut |_, _| {
        seen += 1;
        if seen == 3 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert_eq!((scan, seen), (Ok(()), 3));
}

fn a_batch_sees_its_changes_and_nobody_else_does(engine: &impl Engine) {
    change(engine, |batch| batch.put("t", b"a", b"old").unwrap());
    let mut batch = engine.batch().unwrap();
    batch.put("t", b"a", b"new").unwrap();
    batch.put("t", b"b", b"new").unwrap();
    assert_eq!(batch.get("t", b"a").unwrap().unwrap(), b"new");
    let mut seen: Vec<u8> = Vec::new();
    batch
        .scan("t", ALL, &mut |key, _| {
            seen.extend(key);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, b"ab");
    assert_eq!(rows(&*engine.snapshot().unwrap(), "t", ALL), [row(b"a", b"old")]);
    batch.commit().unwrap();
    assert_eq!(
        rows(&*engine.snapshot().unwrap(), "t", ALL),
        [row(b"a", b"new"), row(b"b", b"new")]
    );
}

fn a_dropped_batch_never_was(engine: &impl Engine) {
    change(engine, |batch| batch.put("t", b"a", b"1").unwrap());
    let mut batch = engine.batch().unwrap();
    batch.put("t", b"b", b"2").unwrap();
    batch.delete("t", b"a").unwrap();
    batch.put("new table", b"c", b"3").unwrap();
    drop(batch);
    change(engine, |batch| batch.put("t", b"d", b"4").unwrap());
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(rows(&*snapshot, "t", ALL), [row(b"a", b"1"), row(b"d", b"4")]);
    assert_eq!(rows(&*snapshot, "new table", ALL), []);
}

fn a_snapshot_stays_as_it_was(engine: &impl Engine) {
    change(engine, |batch| batch.put("t", b"a", b"1").unwrap());
    let before = engine.snapshot().unwrap();
    change(engine, |batch| {
        batch.put("t", b"a", b"2").unwrap();
        batch.put("late", b"a", b"2").unwrap();
    });
    assert_eq!(rows(&*before, "t", ALL), [row(b"a", b"1")]);
    assert_eq!(rows(&*before, "late", ALL), []);
    assert_eq!((before.count("t"), before.count("late")), (Ok(1), Ok(0)));
}

fn batches_wait_for_each_other(engine: &impl Engine) {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 5;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    change(engine, |batch| {
                        let count = batch.get("t", b"count").unwrap();
                        let count = count.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                        batch.put("t", b"count", &(count + 1).to_be_bytes()).unwrap();
                    });
                }
            });
        }
    });
    let count = engine.snapshot().unwrap().get("t", b"count").unwrap().unwrap();
    assert_eq!(count, (THREADS * ROUNDS).to_be_bytes());
}

fn large_values_and_odd_keys_come_back(engine: &impl Engine) {
    let large: Vec<u8> = (0..1_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let long_key = vec![0xff; 3000];
    change(engine, |batch| {
        batch.put("t", b"", b"empty key").unwrap();
        batch.put("t", b"empty value", b"").unwrap();
        batch.put("t", &long_key, &large).unwrap();
    });
    let snapshot = engine.snapshot().unwrap();
    assert_eq!(snapshot.get("t", b"").unwrap().unwrap(), b"empty key");
    assert_eq!(snapshot.get("t", b"empty value").unwrap().unwrap(), b"");
    assert!(snapshot.get("t", &long_key).unwrap().unwrap() == large);
}

fn reopening_loses_nothing(engine: &impl Engine) {
    change(engine, |batch| batch.put("t", b"a", b"1").unwrap());
    let before = engine.snapshot().unwrap();
    engine.reopen().unwrap();
    change(engine, |batch| batch.put("t", b"b", b"2").unwrap());
    // An old snapshot fails or is right.
    assert!(before.get("t", b"b").map_or(true, |row| row.is_none()));
    assert_eq!(
        rows(&*engine.snapshot().unwrap(), "t", ALL),
        [row(b"a", b"1"), row(b"b", b"2")]
    );
}

fn commits_survive_a_crash<E: Engine>(engine: E, crash: impl Fn(E) -> E) {
    change(&engine, |batch| batch.put("t", b"a", b"1").unwrap());
    change(&engine, |batch| batch.put("t", b"b", b"2").unwrap());
    let mut batch = engine.batch().unwrap();
    batch.put("t", b"c", b"3").unwrap();
    drop(batch);
    let engine = crash(engine);
    assert_eq!(
        rows(&*engine.snapshot().unwrap(), "t", ALL),
        [row(b"a", b"1"), row(b"b", b"2")]
    );
    change(&engine, |batch| batch.put("t", b"d", b"4").unwrap());
    assert_eq!(rows(&*engine.snapshot().unwrap(), "t", ALL).len(), 3);
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn change(engine: &impl Engine, change: impl FnOnce(&mut dyn Batch)) {
    let mut batch = engine.batch().unwrap();
    change(&mut *batch);
    batch.commit().unwrap();
}

fn row(key: &[u8], value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (key.to_vec(), value.to_vec())
}

fn rows(snapshot: &dyn Snapshot, table: &str, range: KeyRange<'_>) -> Rows {
    let mut rows = Rows::new();
    snapshot
        .scan(table, range, &mut |key, value| {
            rows.push(row(key, value));
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}
