//! What replication reads from peers and from the disk, as functions from bytes. For the fuzzer (`crates/fuzzing`) only.

use std::fmt::Debug;

use cheops_replica::{Entry, Hello, Welcome, names::Holding};
use cheops_store::tables::{OperationRow, PayloadRow, ReceivingRow, RecordRow, SetRow};
use cheops_types::{NameRequest, NameVerdict};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    pack::unpack,
    promises::Promise,
    rows::{Head, Kept, SiteRecord},
    upkeep::Listed,
    wire,
};

/// Reads a body of messages; whether it can be read. Panics if it is not the same when written and read again.
pub fn messages(body: &[u8]) -> bool {
    wire::fuzzing::messages(body)
}

/// Reads what peers ask and answer beside messages: hello, welcome, name request, name verdict, what is held.
pub fn asks(what: u8, body: &[u8]) -> bool {
    match what {
        b'h' => serde_json::from_slice::<Hello>(body).is_ok(),
        b'w' => serde_json::from_slice::<Welcome>(body).is_ok(),
        b'n' => json::<NameRequest>(body),
        b'v' => json::<NameVerdict>(body),
        b'b' => unpack::<Vec<u128>>(body).is_ok(),
        _ => unpack::<Listed>(body).is_ok(),
    }
}

/// Reads a row of one of the tables; whether it can be read. Panics if it is not the same when written and read again.
pub fn rows(table: u8, row: &[u8]) -> bool {
    match table {
        b's' => read::<SetRow<Head>>(row).is_some(),
        b'r' => read::<RecordRow<Kept>>(row).is_some_and(|row| {
            let without = row.record.without_log();
            assert!(without.without_log() == without);
            true
        }),
        b'o' => read::<OperationRow<Entry>>(row).is_some(),
        b'n' => read::<Holding>(row).is_some(),
        b'i' => read::<SiteRecord>(row).is_some(),
        b'p' => read::<Promise>(row).is_some(),
        b'l' => read::<PayloadRow>(row).is_some(),
        _ => read::<ReceivingRow>(row).is_some(),
    }
}

fn json<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<T>(body) else {
        return false;
    };
    let again = serde_json::to_vec(&value).and_then(|text| serde_json::from_slice::<T>(&text));
    assert_eq!(again.ok().as_ref(), Some(&value));
    true
}

/// As the store does.
fn read<T: Serialize + DeserializeOwned + PartialEq + Debug>(row: &[u8]) -> Option<T> {
    let value: T = cheops_store::decode_value(row)?;
    let again = rmp_serde::to_vec_named(&value).expect("what was read can be written");
    assert_eq!(cheops_store::decode_value::<T>(&again).as_ref(), Some(&value));
    Some(value)
}
