//! What a look-up and a commit cost. The number of sets is small unless `STORE_SETS` says otherwise:
//!
//! ```text
//! STORE_SETS=1000000 cargo bench -p cheops-store
//! ```

use std::{env, fs, hint::black_box, path::Path, time::Instant};

use cheops_store::{
    Incarnation, Options, Read, Span, Store,
    tables::{OperationKey, OperationRow, Operations, SetRow, Sets, SetsByLocalId},
};
use cheops_types::{Limits, ServiceName, SiteName, Stamp};
use criterion::{Criterion, criterion_group, criterion_main};

type Set = Sets<Vec<(String, String)>>;
type ByLocalId = SetsByLocalId<Vec<(String, String)>>;
type Operation = Operations<String>;

const SETS_DEFAULT: u64 = 10_000;
const LOAD_BATCH: u64 = 10_000;

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

fn load(store: &Store, sets: u64) {
    for from in (0..sets).step_by(LOAD_BATCH as usize) {
        let loaded = store.write(move |session| {
            for number in from..sets.min(from + LOAD_BATCH) {
                let row = SetRow {
                    service: service(),
                    kind: "images".into(),
                    local_id: Some(local_id(number)),
                    record: vec![
                        ("paris".into(), local_id(number)),
                        ("rennes".into(), meta_id(number)),
                    ],
                };
                session.put::<Set>(&meta_id(number), &row)?;
            }
            Ok(())
        });
        loaded.and_then(cheops_store::Pending::wait).expect("loaded");
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

fn look_ups(criterion: &mut Criterion) {
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

    let mut group = criterion.benchmark_group(format!("{sets} sets"));
    let mut number = 0;
    let mut next = move || {
        number = (number + 7919) % sets;
        number
    };
    group.bench_function("by meta-id", |bencher| {
        bencher.iter(|| {
            let session = store.read().expect("a session");
            black_box(
                session
                    .get::<Set>(&meta_id(next()))
                    .expect("read")
                    .expect("found"),
            )
        });
    });
    group.bench_function("by local id, to its meta-id", |bencher| {
        bencher.iter(|| {
            let session = store.read().expect("a session");
            let key = (service(), "images".to_owned(), local_id(next()));
            black_box(session.key_by::<ByLocalId>(&key).expect("read").expect("found"))
        });
    });
    group.bench_function("by local id, not there", |bencher| {
        bencher.iter(|| {
            let session = store.read().expect("a session");
            let key = (service(), "images".to_owned(), meta_id(next()));
            black_box(session.key_by::<ByLocalId>(&key).expect("read"))
        });
    });
    group.bench_function("by local id, to its record", |bencher| {
        bencher.iter(|| {
            let session = store.read().expect("a session");
            let key = (service(), "images".to_owned(), local_id(next()));
            black_box(session.by::<ByLocalId>(&Span::under(&key), 1).expect("read"))
        });
    });
    group.finish();
    println!("resident: {} MiB", resident_mib());
}

/// Writers on `threads` threads, each waiting for its own write before it begins the next.
fn commit(store: &Store, threads: u64, writes: u64, clock: &mut u64) {
    let from = *clock;
    *clock += threads * writes;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for write in 0..writes {
                    let millis = from + write * threads + thread;
                    let key = OperationKey {
                        clock: Stamp { millis, count: 0 },
                        origin: SiteName::new("paris").expect("a name"),
                        sequence: millis,
                    };
                    let row = OperationRow {
                        set: meta_id(millis % 1000),
                        state: "accepted".into(),
                        record: "x".repeat(300),
                    };
                    let written = store.write(move |session| session.put::<Operation>(&key, &row));
                    written.and_then(cheops_store::Pending::wait).expect("written");
                }
            });
        }
    });
}

fn commits(criterion: &mut Criterion) {
    let data = tempfile::tempdir().expect("a directory");
    let store = Store::open(data.path(), &options()).expect("opened");
    let mut clock = 0;
    let mut group = criterion.benchmark_group("synced writes of an operation");
    group.sample_size(10);
    for threads in [1, 16, 128] {
        group.throughput(criterion::Throughput::Elements(threads * 10));
        group.bench_function(format!("{threads} at a time"), |bencher| {
            bencher.iter(|| commit(&store, threads, 10, &mut clock));
        });
    }
    group.finish();
}

criterion_group!(benches, look_ups, commits);
criterion_main!(benches);
