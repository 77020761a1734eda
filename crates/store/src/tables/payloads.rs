use serde::{Deserialize, Serialize};

use crate::{
    PartialId, PayloadHash, PayloadRef,
    table::{Index, IndexRows, Table},
};

/// How often each payload is used. Changed through `retain` and `release` only.
#[derive(Debug)]
pub struct Payloads;

/// Payloads that nobody uses: their files go at the next sweep.
#[derive(Debug)]
pub struct UnusedPayloads;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadRow {
    pub bytes: u64,
    pub references: u64,
}

impl Table for Payloads {
    const NAME: &'static str = "payloads";
    const INDEXES: &'static [&'static str] = &["payloads.unused"];
    type Key = PayloadHash;
    type Value = PayloadRow;

    fn index(_: &PayloadHash, row: &PayloadRow, rows: &mut IndexRows) {
        if row.references == 0 {
            rows.add::<UnusedPayloads>(&());
        }
    }
}

impl Index for UnusedPayloads {
    const NAME: &'static str = "payloads.unused";
    type Table = Payloads;
    type Key = ();
}

/// Partial files that a restart must not remove: a payload is being received, and an intent or a
/// transfer that can be resumed stands behind it.
#[derive(Debug)]
pub struct Receiving;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivingRow {
    /// What it will be, where the sender said so.
    pub expected: Option<PayloadRef>,
    /// Whose it is, in the caller's words.
    pub purpose: String,
}

impl Table for Receiving {
    const NAME: &'static str = "receiving";
    type Key = PartialId;
    type Value = ReceivingRow;
}
