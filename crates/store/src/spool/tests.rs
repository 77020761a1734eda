use std::io::Read as _;

use cheops_types::Limits;

use super::*;
use crate::{Incarnation, Options, engine::MemoryEngine, tables::ReceivingRow};

struct Site {
    data: tempfile::TempDir,
    engine: MemoryEngine,
    max_bytes: u64,
}

impl Site {
    fn new() -> Self {
        Self {
            data: tempfile::tempdir().unwrap(),
            engine: MemoryEngine::default(),
            max_bytes: 1 << 20,
        }
    }

    fn start(&self) -> (Store, Spool, Recovered) {
        let options = Options::new(Incarnation(1), &Limits::default());
        let store = Store::with_engine(self.engine.clone(), &options).unwrap();
        let (spool, recovered) = Spool::open(self.data.path(), &store, self.max_bytes).unwrap();
        (store, spool, recovered)
    }

    fn whole(&self) -> usize {
        fs::read_dir(self.data.path().join("spool/whole"))
            .unwrap()
            .count()
    }

    fn partial(&self) -> usize {
        fs::read_dir(self.data.path().join("spool/partial"))
            .unwrap()
            .count()
    }
}

fn spooled(spool: &Spool, content: &[u8]) -> Payload {
    let mut writer = spool.begin().unwrap();
    for chunk in content.chunks(7) {
        writer.append(chunk).unwrap();
    }
    writer.finish().unwrap()
}

fn change(
    store: &Store,
    payload: PayloadRef,
    change: fn(&mut WriteSession<'_>, &PayloadRef) -> Result<(), Error>,
) {
    store
        .write(move |session| change(session, &payload))
        .unwrap()
        .wait()
        .unwrap();
}

fn content(spool: &Spool, payload: &PayloadRef, offset: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    spool
        .reader(payload, offset)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// A crash: the process is gone, no destructor ran.
fn crash(writer: SpoolWriter) {
    std::mem::forget(writer);
}

#[test]
fn a_payload_is_named_by_its_content_and_read_from_anywhere() {
    let site = Site::new();
    let (_, spool, _) = site.start();
    let payload = spooled(&spool, b"abc");
    assert_eq!(
        payload.hash.to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    assert_eq!(payload.hash.to_string().parse(), Ok(payload.hash));
    assert_eq!(payload.bytes, 3);
    assert_eq!(content(&spool, &payload, 0), b"abc");
    assert_eq!(content(&spool, &payload, 2), b"c");
    assert_eq!(content(&spool, &payload, 3), b"");
    assert!(matches!(
        spool.reader(&payload, 4),
        Err(SpoolError::PastEnd { offset: 4, bytes: 3 })
    ));
}

#[test]
fn the_same_content_is_stored_once_until_the_last_reference_goes() {
    let site = Site::new();
    let (store, spool, _) = site.start();
    for _ in 0..2 {
        let payload = spooled(&spool, b"same");
        change(&store, *payload, retain);
    }
    assert_eq!((site.whole(), spool.used_bytes()), (1, 4));
    let payload = *spooled(&spool, b"same");
    change(&store, payload, release);
    assert_eq!(spool.sweep().unwrap(), 0);
    assert_eq!(content(&spool, &payload, 0), b"same");
    change(&store, payload, release);
    assert_eq!(spool.sweep().unwrap(), 1);
    assert_eq!((site.whole(), spool.used_bytes()), (0, 0));
    assert!(matches!(spool.reader(&payload, 0), Err(SpoolError::Missing(_))));
    store.read().unwrap().check_indexes::<Payloads>().unwrap();
    let error = store
        .write(move |session| release(session, &payload))
        .unwrap()
        .wait()
        .unwrap_err();
    assert!(matches!(error, Error::Refused(_)));
}

#[test]
fn what_someone_is_about_to_retain_is_not_swept() {
    let site = Site::new();
    let (store, spool, _) = site.start();
    let first = spooled(&spool, b"same");
    change(&store, *first, retain);
    change(&store, *first, release);
    drop(first);
    let again = spooled(&spool, b"same");
    assert_eq!(spool.sweep().unwrap(), 0);
    change(&store, *again, retain);
    let payload = *again;
    drop(again);
    assert_eq!(spool.sweep().unwrap(), 0);
    assert_eq!(content(&spool, &payload, 0), b"same");
    change(&store, payload, release);
    let pinned = spool.pin(&payload).unwrap();
    assert_eq!(spool.sweep().unwrap(), 0);
    drop(pinned);
    assert_eq!(spool.sweep().unwrap(), 1);
    assert!(spool.pin(&payload).is_none());
}

#[test]
fn a_start_removes_what_nothing_refers_to() {
    let site = Site::new();
    let (store, spool, _) = site.start();
    let kept = spooled(&spool, b"kept");
    change(&store, *kept, retain);
    let unused = spooled(&spool, b"unused");
    change(&store, *unused, retain);
    change(&store, *unused, release);
    spooled(&spool, b"never retained");
    let mut partial = spool.begin().unwrap();
    partial.append(b"partial").unwrap();
    crash(partial);
    let (_, spool, recovered) = site.start();
    assert_eq!(
        recovered,
        Recovered {
            removed: 2,
            missing: vec![]
        }
    );
    assert_eq!((site.whole(), site.partial(), spool.used_bytes()), (1, 0, 4));
    assert_eq!(content(&spool, &kept, 0), b"kept");
}

#[test]
fn what_is_being_received_survives_a_start_and_is_resumed() {
    let site = Site::new();
    let (store, spool, _) = site.start();
    let expected = *spooled(&spool, b"first half, second half");
    let mut writer = spool.begin().unwrap();
    let id = writer.id();
    let row = ReceivingRow {
        expected: Some(expected),
        purpose: "operation 1".into(),
    };
    store
        .write(move |session| session.put::<Receiving>(&id, &row))
        .unwrap()
        .wait()
        .unwrap();
    writer.append(b"first half, ").unwrap();
    crash(writer);
    let (_, spool, recovered) = site.start();
    // The whole file is expected by the row, so that a crash right after finishing costs nothing.
    assert_eq!(recovered.removed, 0);
    let mut writer = spool.resume(id).unwrap();
    assert_eq!(writer.bytes(), 12);
    writer.append(b"second").unwrap();
    assert_eq!(writer.suspend().unwrap(), id);
    let mut writer = spool.resume(id).unwrap();
    assert!(spool.begin().unwrap().id() > id);
    writer.append(b" half").unwrap();
    let payload = writer.finish_expecting(&expected).unwrap();
    assert_eq!(content(&spool, &payload, 6), b"half, second half");
    assert_eq!(spool.used_bytes(), expected.bytes);
    assert!(matches!(spool.resume(id), Err(SpoolError::NoPartial(_))));
}

#[test]
fn another_payload_than_announced_is_thrown_away() {
    let site = Site::new();
    let (_, spool, _) = site.start();
    let expected = *spooled(&spool, b"good");
    let mut writer = spool.begin().unwrap();
    writer.append(b"evil").unwrap();
    assert!(matches!(
        writer.finish_expecting(&expected),
        Err(SpoolError::Mismatch { .. })
    ));
    assert_eq!((site.whole(), site.partial(), spool.used_bytes()), (1, 0, 4));
}

#[test]
fn a_full_spool_refuses_and_recovers() {
    let site = Site {
        max_bytes: 10,
        ..Site::new()
    };
    let hits = Limit::SpoolBytes.hits();
    let (_, spool, _) = site.start();
    let mut first = spool.begin().unwrap();
    first.append(&[1; 6]).unwrap();
    let mut second = spool.begin().unwrap();
    second.append(&[2; 4]).unwrap();
    assert!(matches!(
        second.append(&[2]),
        Err(SpoolError::Full(SpoolFull::Limit { max_bytes: 10 }))
    ));
    assert_eq!(second.bytes(), 4, "what was there stays");
    assert!(Limit::SpoolBytes.hits() > hits);
    drop(second);
    assert_eq!(spool.used_bytes(), 6);
    first.append(&[1; 4]).unwrap();
    first.finish().unwrap();
}

#[test]
fn a_lost_or_cut_payload_is_told_at_the_start() {
    let site = Site::new();
    let (store, spool, _) = site.start();
    let payload = spooled(&spool, b"content");
    change(&store, *payload, retain);
    fs::write(
        site.data
            .path()
            .join("spool/whole")
            .join(payload.hash.to_string()),
        b"con",
    )
    .unwrap();
    let mut bytes = Vec::new();
    let cut = spool.reader(&payload, 0).unwrap().read_to_end(&mut bytes);
    assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let (_, _, recovered) = site.start();
    assert_eq!(recovered.missing, [*payload]);
}
