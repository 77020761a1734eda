//! The tables of replication. A row keeps what is needed to find it beside the record, which only
//! the caller understands: the store is generic over it.
//!
//! | table | key | indexes |
//! |---|---|---|
//! | `sets` | meta-id | `sets.by_local_key`, `sets.by_name`: service, kind, local key or name |
//! | `records` | meta-id | `records.unsettled`: nothing |
//! | `operations` | clock, author, sequence, meta-id | `operations.by_set`: meta-id; `operations.by_state`: state |
//! | `conflicts` | meta-id, then clock, author, sequence | |
//! | `needs` | meta-id that is waited for, meta-id that waits | |
//! | `names` | meta-id of a container, kind and key of what lies in it | |
//! | `site` | nothing: one row | |
//! | `payloads` | hash | `payloads.unused`: nothing |
//! | `receiving` | number of the partial file | |
//! | `groups.log` | group, index | |
//! | `groups.state` | group, what it is | |

use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use crate::table::Table;

mod groups;
mod operations;
mod payloads;
mod sets;

pub use groups::{Blob, GroupLog, GroupState};
pub use operations::{
    Conflicts, OPERATION_DONE, OperationKey, OperationRow, Operations, OperationsBySet, OperationsByState,
};
pub use payloads::{PayloadRow, Payloads, Receiving, ReceivingRow, UnusedPayloads};
pub use sets::{
    Names, Needs, RecordRow, Records, SetRow, Sets, SetsByLocalKey, SetsByName, UnsettledRecords,
};

/// What a table's records can be.
pub trait Record: Serialize + DeserializeOwned {}

impl<R: Serialize + DeserializeOwned> Record for R {}

/// What this site keeps of itself beside its sets: its clock, its counters. One row.
#[derive(Debug)]
pub struct Site<R>(PhantomData<R>);

impl<R: Record> Table for Site<R> {
    const NAME: &'static str = "site";
    type Key = ();
    type Value = R;
}
