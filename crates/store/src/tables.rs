//! The tables of replication. A row keeps what is needed to find it beside the record, which only
//! the caller understands: the store is generic over it.
//!
//! | table | key | indexes |
//! |---|---|---|
//! | `sets` | meta-id | `sets.by_local_id`: service, kind, local id |
//! | `operations` | clock, origin, sequence | `operations.by_set`: meta-id; `operations.by_state`: state |
//! | `conflicts` | meta-id, then the operation's key | |
//! | `credentials` | the operation's key | |
//! | `progress` | peer | |
//! | `site` | nothing: one row | |
//! | `payloads` | hash | `payloads.unused`: hash |
//! | `receiving` | number of the partial file | |

use std::marker::PhantomData;

use cheops_types::{ServiceName, SiteName, Stamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    key::{BadKey, Key, KeyReader},
    seal::Sealed,
    spool::{PartialId, PayloadHash, PayloadRef},
    table::{Index, IndexRows, Table},
};

/// What a table's records can be.
pub trait Record: Serialize + DeserializeOwned {}

impl<R: Serialize + DeserializeOwned> Record for R {}

macro_rules! generic {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<R>(PhantomData<R>);
    )*};
}

generic! {
    /// Replica sets, by meta-id.
    Sets;
    /// Sets by what this site's application calls the replica: `(service, kind, local id)`.
    SetsByLocalId;
    /// Operations in the order of their clock, so that new rows share pages.
    Operations;
    /// Operations of one set, in the order of their clock.
    OperationsBySet;
    /// Operations in one state, in the order of their clock.
    OperationsByState;
    /// Concurrent losers: `(meta-id, operation)`.
    Conflicts;
    /// How far each peer is: one row per peer.
    Progress;
    /// What this site keeps of itself beside its sets: its clock, its counters. One row.
    Site;
}

/// A replica set and what it is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRow<R> {
    pub service: ServiceName,
    pub kind: String,
    /// Of the replica here, as soon as there is one.
    pub local_id: Option<String>,
    pub record: R,
}

/// The key of an operation. Clock and origin alone are unique; the sequence tells them apart where
/// a clock was set back by restoring a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationKey {
    pub clock: Stamp,
    pub origin: SiteName,
    pub sequence: u64,
}

/// An operation and what it is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRow<R> {
    pub set: String,
    /// What this site has made of it; a word of the engine's.
    pub state: String,
    pub record: R,
}

impl Key for OperationKey {
    fn write(&self, out: &mut Vec<u8>) {
        self.clock.write(out);
        self.origin.write(out);
        self.sequence.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        Ok(Self {
            clock: Stamp::read(input)?,
            origin: SiteName::read(input)?,
            sequence: u64::read(input)?,
        })
    }
}

impl<R: Record> Table for Sets<R> {
    const NAME: &'static str = "sets";
    const INDEXES: &'static [&'static str] = &["sets.by_local_id"];
    type Key = String;
    type Value = SetRow<R>;

    fn index(_: &String, row: &SetRow<R>, rows: &mut IndexRows) {
        if let Some(local_id) = &row.local_id {
            rows.add::<SetsByLocalId<R>>(&(row.service.clone(), row.kind.clone(), local_id.clone()));
        }
    }
}

impl<R: Record> Index for SetsByLocalId<R> {
    const NAME: &'static str = "sets.by_local_id";
    type Table = Sets<R>;
    type Key = (ServiceName, String, String);
}

impl<R: Record> Table for Operations<R> {
    const NAME: &'static str = "operations";
    const INDEXES: &'static [&'static str] = &["operations.by_set", "operations.by_state"];
    type Key = OperationKey;
    type Value = OperationRow<R>;

    fn index(_: &OperationKey, row: &OperationRow<R>, rows: &mut IndexRows) {
        rows.add::<OperationsBySet<R>>(&row.set);
        rows.add::<OperationsByState<R>>(&row.state);
    }
}

impl<R: Record> Index for OperationsBySet<R> {
    const NAME: &'static str = "operations.by_set";
    type Table = Operations<R>;
    type Key = String;
}

impl<R: Record> Index for OperationsByState<R> {
    const NAME: &'static str = "operations.by_state";
    type Table = Operations<R>;
    type Key = String;
}

impl<R: Record> Table for Conflicts<R> {
    const NAME: &'static str = "conflicts";
    type Key = (String, OperationKey);
    type Value = R;
}

impl<R: Record> Table for Progress<R> {
    const NAME: &'static str = "progress";
    type Key = SiteName;
    type Value = R;
}

impl<R: Record> Table for Site<R> {
    const NAME: &'static str = "site";
    type Key = ();
    type Value = R;
}

/// Credentials of operations, sealed. Destroyed by deleting the row.
#[derive(Debug)]
pub struct Credentials;

impl Table for Credentials {
    const NAME: &'static str = "credentials";
    type Key = OperationKey;
    type Value = Sealed;
}

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
