//! What replication reads from peers and from the disk; `node` knows the types.

use cheops_node::fuzzing;
use cheops_store::{Key, tables::OperationKey};
use cheops_types::{Caller, Pulse};

/// Markers of MessagePack, and names that rows have.
pub(super) const TOKENS: &[&[u8]] = &[
    b"\x03",
    b"\x90",
    b"\x91",
    b"\x9f",
    b"\xc0",
    b"\xc2",
    b"\xc3",
    b"\xc4\x01",
    b"\xc5\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xcc\xff",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80\0\0\0\0\0\0\0",
    b"\xd9\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xdc\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xde\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xa1a",
    b"\x81",
    b"\x92",
    b"\0\x01",
    b"\0\xff",
    b"\xa6record",
    b"\xa3set",
    b"\xa3log",
    b"\xa5state",
];

pub(super) fn messages(input: &[u8]) -> bool {
    fuzzing::messages(input)
}

/// The first byte says what it is.
pub(super) fn asks(input: &[u8]) -> bool {
    let Some((what, body)) = input.split_first() else {
        return false;
    };
    match what {
        b'c' => serde_json::from_slice::<Caller>(body).is_ok(),
        b'p' => serde_json::from_slice::<Pulse>(body).is_ok(),
        what => fuzzing::asks(*what, body),
    }
}

/// The first byte says which table, the rest is a row's value or its key.
pub(super) fn rows(input: &[u8]) -> bool {
    let Some((table, row)) = input.split_first() else {
        return false;
    };
    if *table != b'k' {
        return fuzzing::rows(*table, row);
    }
    let is_key = key::<OperationKey>(row) | key::<(String, OperationKey)>(row);
    is_key | key::<(cheops_types::ServiceName, String, String)>(row)
}

/// A key is its bytes: nothing else may be read as the same key.
fn key<K: Key>(bytes: &[u8]) -> bool {
    let key = K::from_bytes(bytes);
    if let Ok(key) = &key {
        assert_eq!(key.to_bytes(), bytes);
    }
    key.is_ok()
}
