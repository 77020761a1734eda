use std::sync::mpsc;

use cheops_types::{Limits, ServiceName, SiteName, Stamp};

use super::*;
use crate::{
    engine::{EngineError, MemoryEngine},
    session::Read,
    span::Span,
    tables::{
        Needs, OPERATION_DONE, OperationKey, OperationRow, Operations, OperationsBySet, OperationsByState,
        RecordRow, Records, SetRow, Sets, SetsByLocalKey, SetsByName, UnsettledRecords,
    },
};

type Set = Sets<u64>;
type Operation = Operations<String>;

fn options() -> Options {
    Options::new(Incarnation(7), &Limits::default())
}

fn memory() -> (MemoryEngine, Store) {
    let engine = MemoryEngine::default();
    let store = Store::with_engine(engine.clone(), &options()).unwrap();
    (engine, store)
}

fn set(local_key: Option<&str>, head: u64) -> SetRow<u64> {
    SetRow {
        service: ServiceName::new("image").unwrap(),
        kind: "images".into(),
        local_key: local_key.map(str::to_owned),
        name: None,
        head,
    }
}

fn local(id: &str) -> (ServiceName, String, String) {
    (ServiceName::new("image").unwrap(), "images".into(), id.into())
}

fn operation_key(millis: u64) -> OperationKey {
    OperationKey {
        clock: Stamp { millis, count: 0 },
        origin: SiteName::new("paris").unwrap(),
        incarnation: Incarnation(1),
        stay: 0,
        sequence: 1,
    }
}

fn operation(state: &str) -> OperationRow<String> {
    OperationRow {
        state: state.into(),
        record: "body".into(),
    }
}

fn commits(engine: &MemoryEngine) -> u64 {
    format::read_commits(&*engine.snapshot().unwrap()).unwrap()
}

fn put(store: &Store, id: &str, row: SetRow<u64>) {
    let id = id.to_owned();
    store
        .write(move |session| session.put::<Set>(&id, &row))
        .unwrap()
        .wait()
        .unwrap();
}

/// Holds the writer inside a session until the sender is dropped, so that what follows is one group.
fn hold(store: &Store) -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    let (entered, inside) = mpsc::channel();
    store
        .write(move |_| {
            entered.send(()).unwrap();
            let _ = held.recv();
            Ok(())
        })
        .unwrap();
    inside.recv().unwrap();
    release
}

#[test]
fn a_set_is_found_by_meta_id_and_by_local_key() {
    let (_, store) = memory();
    put(&store, "72", set(Some("42"), 1));
    put(&store, "73", set(Some("421"), 2));
    put(&store, "74", set(None, 3));
    let session = store.read().unwrap();
    assert_eq!(session.get::<Set>(&"72".into()).unwrap().unwrap().head, 1);
    assert_eq!(
        session.key_by::<SetsByLocalKey<u64>>(&local("42")).unwrap(),
        Some("72".into())
    );
    assert_eq!(session.key_by::<SetsByLocalKey<u64>>(&local("4")).unwrap(), None);
    let kind = Span::under(&(ServiceName::new("image").unwrap(), "images".to_owned()));
    let found: Vec<_> = session
        .by::<SetsByLocalKey<u64>>(&kind, 10)
        .unwrap()
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(found, ["72", "73"]);
    assert_eq!(
        session
            .scan::<Set>(&Span::all().after(&"72".to_owned()), 1)
            .unwrap()[0]
            .0,
        "73"
    );
}

#[test]
fn indexes_follow_their_table() {
    let (_, store) = memory();
    put(&store, "72", set(Some("42"), 1));
    put(&store, "72", set(Some("43"), 1));
    let session = store.read().unwrap();
    assert_eq!(session.key_by::<SetsByLocalKey<u64>>(&local("42")).unwrap(), None);
    assert_eq!(
        session.key_by::<SetsByLocalKey<u64>>(&local("43")).unwrap(),
        Some("72".into())
    );
    session.check_indexes::<Set>().unwrap();
    assert!(
        store
            .write(|session| session.delete::<Set>(&"72".into()))
            .unwrap()
            .wait()
            .unwrap()
    );
    let session = store.read().unwrap();
    assert_eq!(session.key_by::<SetsByLocalKey<u64>>(&local("43")).unwrap(), None);
    session.check_indexes::<Set>().unwrap();
}

#[test]
fn the_check_of_indexes_can_fail() {
    let (engine, store) = memory();
    put(&store, "72", set(Some("42"), 1));
    for damage in [b"too much".as_slice(), &[]] {
        let mut batch = engine.batch().unwrap();
        if damage.is_empty() {
            batch.delete("sets", b"72\0\x01").unwrap();
            batch.delete("sets.by_local_key", b"too much").unwrap();
        } else {
            batch.put("sets.by_local_key", damage, b"").unwrap();
        }
        batch.commit().unwrap();
        assert!(store.read().unwrap().check_indexes::<Set>().is_err());
    }
}

#[test]
fn operations_are_ordered_by_clock_within_set_and_state() {
    let (_, store) = memory();
    store
        .write(|session| {
            for (millis, set, state) in [
                (3, "72", "blocked"),
                (1, "72", OPERATION_DONE),
                (2, "7", "blocked"),
                (1, "73", OPERATION_DONE),
            ] {
                let key = (operation_key(millis), set.to_owned());
                session.put::<Operation>(&key, &operation(state))?;
            }
            Ok(())
        })
        .unwrap()
        .wait()
        .unwrap();
    let session = store.read().unwrap();
    let clocks = |keys: Vec<(String, (OperationKey, String))>| -> Vec<u64> {
        keys.into_iter().map(|(_, (key, _))| key.clock.millis).collect()
    };
    let of_set = session
        .keys_by::<OperationsBySet<String>>(&Span::under(&"72".to_owned()), 10)
        .unwrap();
    assert_eq!(clocks(of_set), [1, 3]);
    let blocked = Span::under(&"blocked".to_owned());
    let in_state = session
        .keys_by::<OperationsByState<String>>(&blocked, 10)
        .unwrap();
    assert_eq!(clocks(in_state.clone()), [2, 3]);
    let after = blocked.after(&in_state[0]);
    assert_eq!(
        clocks(session.keys_by::<OperationsByState<String>>(&after, 10).unwrap()),
        [3]
    );
    assert_eq!(session.count::<Operation>(), Ok(4));
    assert_eq!(
        session.count_by::<OperationsByState<String>>(),
        Ok(2),
        "what is done is not indexed"
    );
    session.check_indexes::<Operation>().unwrap();
}

#[test]
fn a_name_finds_every_set_that_had_it() {
    let (_, store) = memory();
    let named = |head| SetRow {
        name: Some("web".into()),
        ..set(None, head)
    };
    put(&store, "72", named(1));
    put(&store, "73", named(2));
    put(&store, "74", set(Some("web"), 3));
    let session = store.read().unwrap();
    let found = session
        .by::<SetsByName<u64>>(&Span::under(&local("web")), 9)
        .unwrap();
    let found: Vec<_> = found.iter().map(|(id, row)| (id.as_str(), row.head)).collect();
    assert_eq!(found, [("72", 1), ("73", 2)]);
    let (id, row) = session
        .get_by::<SetsByLocalKey<u64>>(&local("web"))
        .unwrap()
        .unwrap();
    assert_eq!((id.as_str(), row.head), ("74", 3));
    session.check_indexes::<Set>().unwrap();
}

#[test]
fn only_unsettled_sets_are_in_their_index() {
    let (_, store) = memory();
    let write = |unsettled: [bool; 4]| {
        store
            .write(move |session| {
                for (id, unsettled) in unsettled.into_iter().enumerate() {
                    let row = RecordRow { unsettled, record: 1 };
                    session.put::<Records<u64>>(&id.to_string(), &row)?;
                }
                Ok(())
            })
            .unwrap()
            .wait()
            .unwrap();
    };
    let unsettled = || -> Vec<String> {
        let session = store.read().unwrap();
        session.check_indexes::<Records<u64>>().unwrap();
        let rows = session.by::<UnsettledRecords<u64>>(&Span::all(), 9).unwrap();
        rows.into_iter().map(|(id, _)| id).collect()
    };
    write([true, false, true, false]);
    assert_eq!(unsettled(), ["0", "2"]);
    write([false, false, true, true]);
    assert_eq!(unsettled(), ["2", "3"]);
}

#[test]
fn whoever_waits_is_found_in_pages() {
    let (_, store) = memory();
    let pair = |waiting: &str| ("parent".to_owned(), waiting.to_owned());
    store
        .write(move |session| {
            for waiting in ["a", "b", "c"] {
                session.put::<Needs>(&pair(waiting), &())?;
            }
            session.put::<Needs>(&("parent 2".into(), "d".into()), &())
        })
        .unwrap()
        .wait()
        .unwrap();
    let session = store.read().unwrap();
    let under = Span::under(&"parent".to_owned());
    let page = session.scan::<Needs>(&under, 2).unwrap();
    assert_eq!(page, [(pair("a"), ()), (pair("b"), ())]);
    let page = session.scan::<Needs>(&under.after(&pair("b")), 2).unwrap();
    assert_eq!(page, [(pair("c"), ())]);
}

#[test]
fn what_is_as_it_was_is_not_written() {
    let (engine, store) = memory();
    put(&store, "72", set(Some("42"), 1));
    assert_eq!(commits(&engine), 1);
    put(&store, "72", set(Some("42"), 1));
    assert_eq!(commits(&engine), 1);
    put(&store, "72", set(Some("42"), 2));
    assert_eq!(commits(&engine), 2);
    store.read().unwrap().check_indexes::<Set>().unwrap();
}

#[test]
fn a_session_sees_its_own_changes_in_every_way_of_reading() {
    let (_, store) = memory();
    for id in ["a", "c", "e"] {
        put(&store, id, set(Some(id), 1));
    }
    store
        .write(|session| {
            session.put::<Set>(&"b".into(), &set(Some("b"), 2))?;
            session.put::<Set>(&"c".into(), &set(Some("x"), 2))?;
            session.delete::<Set>(&"e".into())?;
            session.put::<Set>(&"f".into(), &set(None, 2))?;
            let rows = session.scan::<Set>(&Span::all(), 10)?;
            let rows: Vec<_> = rows.iter().map(|(id, row)| (id.as_str(), row.head)).collect();
            assert_eq!(rows, [("a", 1), ("b", 2), ("c", 2), ("f", 2)]);
            assert_eq!(session.scan::<Set>(&Span::all(), 2)?.len(), 2);
            assert_eq!(
                session
                    .scan::<Set>(&Span::all().after(&"b".to_owned()).before(&"f".to_owned()), 9)?
                    .len(),
                1
            );
            assert_eq!(session.get::<Set>(&"e".into())?, None);
            assert_eq!(session.key_by::<SetsByLocalKey<u64>>(&local("c"))?, None);
            assert_eq!(
                session.key_by::<SetsByLocalKey<u64>>(&local("x"))?,
                Some("c".into())
            );
            Ok(())
        })
        .unwrap()
        .wait()
        .unwrap();
    store.read().unwrap().check_indexes::<Set>().unwrap();
}

#[test]
fn a_refused_session_leaves_its_group_alone() {
    let (_, store) = memory();
    let held = hold(&store);
    let first = store
        .write(|session| session.put::<Set>(&"1".into(), &set(None, 1)))
        .unwrap();
    let refused = store
        .write(|session| {
            session.put::<Set>(&"1".into(), &set(None, 9))?;
            session.put::<Set>(&"2".into(), &set(None, 9))?;
            Err::<(), _>(Error::Refused("no".into()))
        })
        .unwrap();
    let last = store
        .write(|session| Ok(session.get::<Set>(&"1".into())?.unwrap().head))
        .unwrap();
    drop(held);
    assert_eq!(first.wait(), Ok(()));
    assert_eq!(refused.wait(), Err(Error::Refused("no".into())));
    assert_eq!(last.wait(), Ok(1));
    assert_eq!(
        store.read().unwrap().scan::<Set>(&Span::all(), 10).unwrap().len(),
        1
    );
}

#[test]
fn what_waits_is_committed_together() {
    let (engine, store) = memory();
    let held = hold(&store);
    let waiting: Vec<_> = (0..100)
        .map(|i| {
            store
                .write(move |session| session.put::<Set>(&i.to_string(), &set(None, i)))
                .unwrap()
        })
        .collect();
    assert_eq!(commits(&engine), 0);
    drop(held);
    for pending in waiting {
        pending.wait().unwrap();
    }
    assert_eq!(commits(&engine), 1);
    assert_eq!(
        store
            .read()
            .unwrap()
            .scan::<Set>(&Span::all(), 1000)
            .unwrap()
            .len(),
        100
    );
}

#[test]
fn a_full_queue_refuses_and_counts() {
    let hits = Limit::StoreQueue.hits();
    let options = Options {
        queue_max: 2,
        ..options()
    };
    let store = Store::with_engine(MemoryEngine::default(), &options).unwrap();
    let held = hold(&store);
    let waiting = [store.write(|_| Ok(())).unwrap(), store.write(|_| Ok(())).unwrap()];
    assert_eq!(store.write(|_| Ok(())).unwrap_err(), Error::Busy { queue_max: 2 });
    assert!(Limit::StoreQueue.hits() > hits);
    drop(held);
    for pending in waiting {
        pending.wait().unwrap();
    }
}

#[test]
fn a_failed_commit_says_what_is_known() {
    let (engine, store) = memory();
    put(&store, "1", set(None, 1));
    engine.fail_commit(EngineError::NoSpace, false);
    let lost = store
        .write(|session| session.put::<Set>(&"2".into(), &set(None, 1)))
        .unwrap();
    assert_eq!(lost.wait(), Err(Error::Full));
    engine.fail_commit(EngineError::Io("sync".into()), true);
    let unknown = store
        .write(|session| session.put::<Set>(&"3".into(), &set(None, 1)))
        .unwrap();
    assert_eq!(
        unknown.wait(),
        Err(Error::Unknown(EngineError::Io("sync".into())))
    );
    put(&store, "4", set(None, 1));
    let ids: Vec<_> = store
        .read()
        .unwrap()
        .scan::<Set>(&Span::all(), 9)
        .unwrap()
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(ids, ["1", "3", "4"]);
}

#[test]
fn the_last_handle_waits_for_the_queue() {
    let (engine, store) = memory();
    let waiting: Vec<_> = (0..20)
        .map(|i: u64| {
            store
                .write(move |session| session.put::<Set>(&i.to_string(), &set(None, i)))
                .unwrap()
        })
        .collect();
    drop(store);
    assert!(waiting.into_iter().all(|pending| pending.wait().is_ok()));
    let store = Store::with_engine(engine.crashed(), &options()).unwrap();
    assert!(!store.is_new());
    assert_eq!(
        store
            .read()
            .unwrap()
            .scan::<Set>(&Span::all(), 100)
            .unwrap()
            .len(),
        20
    );
}

#[test]
fn a_panicking_session_closes_the_store_and_keeps_nothing() {
    let (engine, store) = memory();
    let broken = store
        .write(|session| {
            session.put::<Set>(&"1".into(), &set(None, 1))?;
            assert!(
                !session.contains::<Set>(&"1".into())?,
                "a broken invariant, on purpose"
            );
            Ok(())
        })
        .unwrap();
    assert_eq!(broken.wait(), Err(Error::Closed));
    drop(store);
    let store = Store::with_engine(engine.crashed(), &options()).unwrap();
    assert_eq!(store.read().unwrap().scan::<Set>(&Span::all(), 9).unwrap(), []);
}

#[test]
fn a_record_of_another_shape_is_an_error() {
    let (_, store) = memory();
    put(&store, "1", set(None, 1));
    let error = store
        .read()
        .unwrap()
        .get::<Sets<String>>(&"1".into())
        .unwrap_err();
    assert!(matches!(error, Error::BadRow { table: "sets", .. }), "{error}");
}
