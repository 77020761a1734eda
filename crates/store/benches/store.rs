//! What a look-up and a commit cost. The number of sets is small unless `STORE_SETS` says otherwise:
//!
//! ```text
//! STORE_SETS=1000000 cargo bench -p cheops-store
//! ```

use std::{
    env, fs,
    hint::black_box,
    ops::ControlFlow,
    path::Path,
    time::{Duration, Instant},
};

use cheops_store::{
    Incarnation, Options, Pending, Read, Span, Store,
    tables::{
        OPERATION_DONE, OperationKey, OperationRow, Operations, RecordRow, Records, SetRow, Sets,
        SetsByLocalKey, UnsettledRecords,
    },
};
use cheops_types::{Limits, ServiceName, SiteName, Stamp};
use serde::{Deserialize, Serialize};

/// What the data plane asks of a set.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    shown: String,
    local: Option<String>,
    sites: Vec<SiteName>,
    standing: u8,
}

type Set = Sets<Head>;
type ByLocalKey = SetsByLocalKey<Head>;
type SetRecord = Records<String>;
type Operation = Operations<String>;

const LOOK_UPS: u64 = 200_000;
const SETS_DEFAULT: u64 = 10_000;
const LOAD_BATCH: u64 = 10_000;
/// Vectors, members, peers: a settled set at three sites.
const RECORD_BYTES: usize = 600;
const OPERATION_BYTES: usize = 400;
const COMMITS_FOR: Duration = Duration::from_secs(5);

fn sets() -> u64 {
    env::var("STORE_SETS").map_or(SETS_DEFAULT, |text| {
        text.parse().expect("STORE_SETS is no number")
    })
}

fn options() -> Options {
    Options::new(Incarnation(1), &Limits::default())
}

/// Spreads numbers, so that keys come in no order.
fn spread(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn meta_id(number: u64) -> String {
    format!("{:016x}-meta", spread(number))
}

fn local_id(number: u64) -> String {
    format!("{:016x}-local", spread(number).rotate_left(17))
}

fn service() -> ServiceName {
    ServiceName::new("image").expect("a name")
}

fn set(number: u64) -> SetRow<Head> {
    SetRow {
        service: service(),
        kind: "images".into(),
        local_key: Some(local_id(number)),
        name: None,
        head: Head {
            shown: meta_id(number),
            local: Some(local_id(number)),
            sites: ["paris", "rennes", "lyon"].map(site).to_vec(),
            standing: 0,
        },
    }
}

fn site(name: &str) -> SiteName {
    SiteName::new(name).expect("a name")
}

fn record(unsettled: bool) -> RecordRow<String> {
    RecordRow {
        unsettled,
        record: "r".repeat(RECORD_BYTES),
    }
}

fn load(store: &Store, sets: u64) {
    for from in (0..sets).step_by(LOAD_BATCH as usize) {
        let loaded = store.write(move |session| {
            for number in from..sets.min(from + LOAD_BATCH) {
                session.put::<Set>(&meta_id(number), &set(number))?;
                session.put::<SetRecord>(&meta_id(number), &record(number % 10_000 == 0))?;
            }
            Ok(())
        });
        loaded.and_then(Pending::wait).expect("loaded");
    }
}

fn resident_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn file_mib(data: &Path) -> u64 {
    fs::metadata(data.join("store.redb")).map_or(0, |file| file.len()) >> 20
}

fn main() {
    let sets = sets();
    let data = tempfile::tempdir().expect("a directory");
    let start = Instant::now();
    let store = Store::open(data.path(), &options()).expect("opened");
    load(&store, sets);
    println!(
        "{sets} sets loaded in {:?}, file {} MiB",
        start.elapsed(),
        file_mib(data.path())
    );
    drop(store);
    let start = Instant::now();
    let store = Store::open(data.path(), &options()).expect("opened");
    println!("opened again in {:?}", start.elapsed());
    start_of_an_agent(&store);
    println!("resident: {} MiB", resident_mib());

    look_ups(&store, sets);
    println!("resident: {} MiB", resident_mib());
    commits(&store, sets, &mut 1);
    println!(
        "resident: {} MiB, file {} MiB",
        resident_mib(),
        file_mib(data.path())
    );
    let start = Instant::now();
    drop(store);
    println!("closed in {:?}", start.elapsed());
}

fn look_ups(store: &Store, sets: u64) {
    let by_local_key = |id: String| (service(), "images".to_owned(), id);
    cost("by meta-id", sets, |number| {
        let session = store.read().expect("a session");
        session.get::<Set>(&meta_id(number)).expect("read").is_some()
    });
    cost("by local key, to its meta-id", sets, |number| {
        let session = store.read().expect("a session");
        let key = by_local_key(local_id(number));
        session.key_by::<ByLocalKey>(&key).expect("read").is_some()
    });
    cost("by local key, to its row", sets, |number| {
        let session = store.read().expect("a session");
        let key = by_local_key(local_id(number));
        session.get_by::<ByLocalKey>(&key).expect("read").is_some()
    });
    cost("by local key, not there", sets, |number| {
        let session = store.read().expect("a session");
        let key = by_local_key(meta_id(number));
        session.key_by::<ByLocalKey>(&key).expect("read").is_none()
    });
    cost("the whole state by meta-id", sets, |number| {
        let session = store.read().expect("a session");
        session
            .get::<SetRecord>(&meta_id(number))
            .expect("read")
            .is_some()
    });
}

/// Times a look-up of sets in no order, each in a session of its own: as it passes, and on the
/// processor, which is what counts on a machine that is busy with something else.
fn cost(what: &str, sets: u64, look_up: impl Fn(u64) -> bool) {
    let (start, before) = (Instant::now(), processor_time());
    for i in 0..LOOK_UPS {
        assert!(black_box(look_up(spread(i) % sets)), "{what}: wrong");
    }
    let (elapsed, processor) = (start.elapsed(), processor_time().saturating_sub(before));
    println!(
        "{what}: {:.1?}, {:.1?} of the processor",
        elapsed / LOOK_UPS as u32,
        processor / LOOK_UPS as u32
    );
}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// What an agent reads before it serves: all rows of sets, for its presence index, and the state of
/// those with something left to do.
fn start_of_an_agent(store: &Store) {
    let start = Instant::now();
    let session = store.read().expect("a session");
    let mut sets = 0_u64;
    let mut count = |_, row: SetRow<Head>| {
        sets += u64::from(row.local_key.is_some());
        ControlFlow::Continue(())
    };
    session.for_each::<Set>(&Span::all(), &mut count).expect("read");
    let unsettled = session.by::<UnsettledRecords<String>>(&Span::all(), usize::MAX);
    println!(
        "{sets} sets and {} unsettled ones read in {:?}",
        unsettled.expect("read").len(),
        start.elapsed()
    );
}

/// Bytes that this process has handed to the kernel.
fn written_bytes() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|line| line.parse().ok()).unwrap_or(0)
}

/// One replicated write, as the first of its commits stores it: an operation and the state of its set.
fn write(store: &Store, sets: u64, millis: u64) -> Pending<()> {
    let set = meta_id(spread(millis) % sets);
    let key = OperationKey {
        clock: Stamp { millis, count: 0 },
        origin: site("paris"),
        incarnation: Incarnation(1),
        stay: 0,
        sequence: millis,
    };
    let row = OperationRow {
        state: if millis.is_multiple_of(2) {
            "waiting"
        } else {
            OPERATION_DONE
        }
        .into(),
        record: "x".repeat(OPERATION_BYTES),
    };
    let mut record = record(true);
    record.record.push_str(&millis.to_string());
    let written = store.write(move |session| {
        session.put::<SetRecord>(&set, &record)?;
        session.put::<Operation>(&(key, set), &row)
    });
    written.expect("queued")
}

/// `together` writes wait at any time, as in the agent's engine, which hands over whole groups.
fn commits(store: &Store, sets: u64, millis: &mut u64) {
    for together in [1, 16, 128, 1024] {
        let (start, from, before) = (Instant::now(), *millis, written_bytes());
        let mut rounds = 0;
        while start.elapsed() < COMMITS_FOR {
            let pending: Vec<_> = (0..together).map(|i| write(store, sets, *millis + i)).collect();
            for pending in pending {
                pending.wait().expect("written");
            }
            *millis += together;
            rounds += 1;
        }
        let elapsed = start.elapsed();
        println!(
            "{together} writes at a time: {:.0} writes/s, {:?} a round, {} KiB a round",
            (*millis - from) as f64 / elapsed.as_secs_f64(),
            elapsed / rounds,
            (written_bytes() - before) / u64::from(rounds) / 1024
        );
    }
}
