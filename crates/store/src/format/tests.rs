use std::fs;

use cheops_types::Limits;

use super::*;
use crate::{
    engine::{MemoryEngine, RedbEngine},
    key::Key as _,
    session::Read as _,
    store::Store,
    tables::Site,
};

fn options(incarnation: u64) -> Options {
    Options::new(Incarnation(incarnation), &Limits::default())
}

fn put(engine: &dyn Engine, rows: &[(&str, &[u8], &[u8])]) {
    let mut batch = engine.batch().unwrap();
    for (table, key, value) in rows {
        batch.put(table, key, value).unwrap();
    }
    batch.commit().unwrap();
}

/// Version 0, for tests alone: its sets had no terminated keys.
const FROM_ZERO: Migration = Migration {
    from: 0,
    apply: |batch| {
        let mut old = Vec::new();
        batch.scan(
            "old sets",
            (Bound::Unbounded, Bound::Unbounded),
            &mut |key, value| {
                old.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            },
        )?;
        for (key, value) in old {
            batch.delete("old sets", &key)?;
            let key = String::from_utf8(key).map_err(|_| EngineError::Damaged("no text".into()))?;
            batch.put("sets", &key.to_bytes(), &value)?;
        }
        Ok(())
    },
};

fn version_zero(engine: &dyn Engine) {
    put(
        engine,
        &[
            (META, FORMAT_KEY, &0_u32.to_be_bytes()),
            (META, INCARNATION_KEY, &5_u64.to_be_bytes()),
            ("old sets", b"72", b"record"),
        ],
    );
}

fn is_migrated(engine: &dyn Engine) -> bool {
    let snapshot = engine.snapshot().unwrap();
    let new = snapshot.get("sets", b"72\0\x01").unwrap();
    let old = snapshot.get("old sets", b"72").unwrap();
    let format = snapshot.get(META, FORMAT_KEY).unwrap().unwrap();
    match (new, old) {
        (Some(_), None) => {
            assert_eq!(format, FORMAT.to_be_bytes());
            true
        }
        (None, Some(_)) => {
            assert_eq!(format, 0_u32.to_be_bytes());
            false
        }
        half => panic!("half migrated: {half:?}"),
    }
}

#[test]
fn an_old_image_is_migrated_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.redb");
    version_zero(&RedbEngine::open(&file, 1 << 20).unwrap());
    let engine = RedbEngine::open(&file, 1 << 20).unwrap();
    let meta = prepare(&engine, &options(9), &[FROM_ZERO, MIGRATIONS[0]], None).unwrap();
    assert!(is_migrated(&engine));
    assert_eq!(meta.mark.incarnation, Incarnation(5));
    assert_eq!(meta.origin, Origin::Before);
    prepare(&engine, &options(9), &[], None).unwrap();
}

#[test]
fn a_migration_that_fails_leaves_the_old_version() {
    let engine = MemoryEngine::default();
    version_zero(&engine);
    engine.fail_commit(EngineError::NoSpace, false);
    let error = prepare(&engine, &options(9), &[FROM_ZERO, MIGRATIONS[0]], None).unwrap_err();
    assert_eq!(error, OpenError::Engine(EngineError::NoSpace));
    let engine = engine.crashed();
    assert!(!is_migrated(&engine));
    prepare(&engine, &options(9), &[FROM_ZERO, MIGRATIONS[0]], None).unwrap();
    assert!(is_migrated(&engine));
}

#[test]
fn the_list_of_migrations_has_no_gap() {
    for (before, after) in MIGRATIONS.iter().zip(MIGRATIONS.iter().skip(1)) {
        assert_eq!(before.from + 1, after.from);
    }
    assert!(MIGRATIONS.last().is_none_or(|last| last.from + 1 == FORMAT));
}

#[test]
fn a_version_without_a_way_is_refused() {
    let engine = MemoryEngine::default();
    version_zero(&engine);
    let error = prepare(&engine, &options(9), &[], None).unwrap_err();
    assert_eq!(error, OpenError::TooOld { found: 0 });
    assert!(!is_migrated(&engine));
}

#[test]
fn a_newer_version_is_refused_and_told_what_to_do() {
    let engine = MemoryEngine::default();
    let found = FORMAT + 1;
    put(&engine, &[(META, FORMAT_KEY, &found.to_be_bytes())]);
    let error = prepare(&engine, &options(9), &[], None).unwrap_err();
    assert_eq!(error, OpenError::Newer { found, known: FORMAT });
    assert!(
        error.to_string().contains("start the version that wrote it"),
        "{error}"
    );
}

#[test]
fn something_else_is_not_taken_for_a_store() {
    let engine = MemoryEngine::default();
    put(&engine, &[(META, b"other", b"x")]);
    assert!(matches!(
        prepare(&engine, &options(9), &[], None),
        Err(OpenError::Damaged(_))
    ));
    let directory = tempfile::tempdir().unwrap();
    for length in [1, 4096, 100_000, 409_600] {
        fs::write(directory.path().join("store.redb"), vec![7; length]).unwrap();
        let error = Store::open(directory.path(), &options(9)).unwrap_err();
        assert!(
            matches!(error, OpenError::Engine(EngineError::Damaged(_))),
            "{length} bytes: {error}"
        );
    }
}

#[test]
fn the_incarnation_stays_until_the_store_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let open = |incarnation, restored| {
        let options = Options {
            restored,
            ..options(incarnation)
        };
        let store = Store::open(directory.path(), &options).unwrap();
        (store.incarnation().0, store.is_new())
    };
    assert_eq!(open(1, false), (1, true));
    assert_eq!(open(2, false), (1, false));
    assert_eq!(open(3, true), (3, true));
    assert_eq!(open(4, false), (3, false));
}

/// Opens, writes `sessions` times, and says which incarnation it was and whether it began now.
fn run(data: &std::path::Path, incarnation: u64, sessions: u64) -> (u64, bool) {
    let store = Store::open(data, &options(incarnation)).unwrap();
    for number in 0..sessions {
        let change = store.write(move |session| session.put::<Site<(u64, u64)>>(&(), &(incarnation, number)));
        change.unwrap().wait().unwrap();
    }
    (store.incarnation().0, store.is_restored())
}

#[test]
fn an_old_copy_begins_a_new_history() {
    let data = tempfile::tempdir().unwrap();
    let file = |name: &str| data.path().join(name);
    let names = ["store.redb", "store.log.0", "store.log.1"];
    let copy = || names.map(|name| fs::copy(file(name), file("copy").join(name)).unwrap());
    let put_back = || names.map(|name| fs::copy(file("copy").join(name), file(name)).unwrap());
    fs::create_dir(file("copy")).unwrap();
    assert_eq!(run(data.path(), 1, 3), (1, false));
    copy();
    assert_eq!(run(data.path(), 2, 1), (1, false));
    put_back();
    assert_eq!(run(data.path(), 3, 5), (3, true));
    assert_eq!(run(data.path(), 4, 0), (3, false));
    // Once more, by a caller whose clock went back.
    put_back();
    assert_eq!(
        run(data.path(), 2, 0),
        (4, true),
        "never an incarnation that was there before"
    );
    // A copy without what was seen of it.
    fs::remove_file(file("store.seen")).unwrap();
    assert_eq!(run(data.path(), 9, 0), (9, true));
}

/// The tables alone were put back, and the logs still have everything since.
#[test]
fn tables_that_their_logs_bring_up_to_date_are_no_old_copy() {
    let data = tempfile::tempdir().unwrap();
    let file = |name: &str| data.path().join(name);
    assert_eq!(run(data.path(), 1, 3), (1, false));
    fs::copy(file("store.redb"), file("copy")).unwrap();
    assert_eq!(run(data.path(), 2, 4), (1, false));
    fs::copy(file("copy"), file("store.redb")).unwrap();
    let store = Store::open(data.path(), &options(3)).unwrap();
    assert_eq!((store.incarnation().0, store.is_restored()), (1, false));
    let last = store.read().unwrap().get::<Site<(u64, u64)>>(&()).unwrap();
    assert_eq!(last, Some((2, 3)));
}

/// Of a version that had no logs.
#[test]
fn a_store_of_version_one_is_opened_and_its_tables_say_that_they_have_changed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.redb");
    let tables = RedbEngine::open(&file, 1 << 20).unwrap();
    let (format, incarnation) = (1_u32.to_be_bytes(), 5_u64.to_be_bytes());
    put(
        &tables,
        &[(META, FORMAT_KEY, &format), (META, INCARNATION_KEY, &incarnation)],
    );
    drop(tables);
    assert_eq!(
        run(directory.path(), 9, 1).0,
        9,
        "nothing says what was seen of it"
    );
    let tables = RedbEngine::open(&file, 1 << 20).unwrap();
    let format = tables.snapshot().unwrap().get(META, FORMAT_KEY).unwrap();
    assert_eq!(format.unwrap(), FORMAT.to_be_bytes());
}

#[test]
fn a_lost_store_begins_a_later_history() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(run(data.path(), 7, 1), (7, false));
    fs::remove_file(data.path().join("store.redb")).unwrap();
    let store = Store::open(data.path(), &options(5)).unwrap();
    assert_eq!(
        (store.incarnation().0, store.is_new(), store.is_restored()),
        (8, true, false)
    );
}

#[test]
fn a_second_opening_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &options(1)).unwrap();
    let error = Store::open(directory.path(), &options(1)).unwrap_err();
    assert_eq!(
        error,
        OpenError::Locked {
            data: directory.path().to_owned()
        }
    );
    assert!(error.to_string().contains("open in another process"));
    drop(store);
    Store::open(directory.path(), &options(1)).unwrap();
}

#[test]
fn a_missing_directory_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let error = Store::open(&directory.path().join("none"), &options(1)).unwrap_err();
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
}
