//! A real disk that is full, the store's and the spool's: what does not fit is refused, all else goes on.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    path::Path,
    process::Command,
};

use cheops_store::{
    Error, Incarnation, Options, ReadSession, Spool, SpoolError, SpoolFull, Store, retain,
    tables::{RecordRow, Records},
};
use cheops_types::Limits;

/// Where the disk is, in the process that has one.
const DISK: &str = "CHEOPS_TEST_SMALL_DISK";
const DISK_BYTES: usize = 8 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// Runs the test below in a mount namespace of its own, with a small disk that ends with it.
#[test]
fn a_full_disk_refuses_what_does_not_fit() {
    let directory = tempfile::tempdir().unwrap();
    let isolated = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "--"]);
        command
    };
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} tmpfs \"${DISK}\"");
    let mounts = isolated()
        .args(["sh", "-c", &mount])
        .env(DISK, directory.path())
        .output();
    if !mounts.as_ref().is_ok_and(|output| output.status.success()) {
        // Past the test harness, which would keep it for itself.
        let told = format!(
            "a_full_disk_refuses_what_does_not_fit: SKIPPED, no disk can be mounted here: {mounts:?}\n"
        );
        std::io::stderr().write_all(told.as_bytes()).unwrap();
        return;
    }
    let outcome = isolated()
        .args(["sh", "-c", &format!("{mount} && exec \"$@\""), "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "on_the_small_disk", "--nocapture"])
        .env(DISK, directory.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&outcome.stdout);
    assert!(
        outcome.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
#[ignore = "run by the other test, which makes the disk"]
fn on_the_small_disk() {
    let Some(disk) = env::var_os(DISK) else {
        return;
    };
    let disk = Path::new(&disk);
    let options = Options {
        cache_bytes: 1 << 20,
        ..Options::new(Incarnation(1), &Limits::default())
    };
    let store = Store::open(disk, &options).unwrap();
    let (spool, _) = Spool::open(disk, &store, u64::MAX).unwrap();
    the_store_refuses_and_recovers(disk, &store);
    the_spool_refuses_and_recovers(disk, &store, &spool);
    drop((store, spool));
    let store = Store::open(disk, &options).unwrap();
    assert!(!store.is_new());
    store.read().unwrap().check_indexes::<Records<Vec<u8>>>().unwrap();
}

fn put(store: &Store, number: usize) -> Result<(), Error> {
    let row = RecordRow {
        unsettled: true,
        record: vec![1_u8; CHUNK_BYTES],
    };
    store
        .write(move |session| session.put::<Records<Vec<u8>>>(&format!("{number:04}"), &row))?
        .wait()
}

fn count(store: &Store) -> usize {
    let count = store.read_with(ReadSession::count::<Records<Vec<u8>>>);
    count.unwrap() as usize
}

fn the_store_refuses_and_recovers(disk: &Path, store: &Store) {
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; DISK_BYTES / 4]).unwrap();
    let mut written = 0;
    while put(store, written)
        .map_err(|error| assert_eq!(error, Error::Full))
        .is_ok()
    {
        written += 1;
    }
    assert!(written > 0);
    for _ in 0..3 {
        assert_eq!(count(store), written);
        assert_eq!(put(store, written), Err(Error::Full));
    }
    fs::remove_file(&ballast).unwrap();
    put(store, written).unwrap();
    assert_eq!(count(store), written + 1);
    // Room for what follows.
    let deleted = store.write(move |session| {
        for number in 0..=written {
            session.delete::<Records<Vec<u8>>>(&format!("{number:04}"))?;
        }
        Ok(())
    });
    deleted.unwrap().wait().unwrap();
}

fn the_spool_refuses_and_recovers(disk: &Path, store: &Store, spool: &Spool) {
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; 4 * CHUNK_BYTES]).unwrap();
    // An odd length, so that the disk ends within a chunk.
    let chunk = vec![2; CHUNK_BYTES - 1];
    let mut writer = spool.begin().unwrap();
    let error = loop {
        if let Err(error) = writer.append(&chunk) {
            break error;
        }
    };
    assert!(matches!(error, SpoolError::Full(SpoolFull::Disk)), "{error}");
    assert_eq!(spool.used_bytes(), writer.bytes());
    assert!(matches!(
        spool.begin(),
        Ok(_) | Err(SpoolError::Full(SpoolFull::Disk))
    ));
    fs::remove_file(&ballast).unwrap();
    writer.append(&chunk).unwrap();
    let payload = writer.finish().unwrap();
    assert_eq!(payload.bytes % chunk.len() as u64, 0);
    let mut content = Vec::new();
    spool
        .reader(&payload, 0)
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    assert!(content.iter().all(|byte| *byte == 2));
    let retained = *payload;
    let change = store.write(move |session| retain(session, &retained));
    change.unwrap().wait().unwrap();
}
