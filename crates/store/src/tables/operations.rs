use std::marker::PhantomData;

use cheops_types::{SiteName, Stamp};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::Record;
use crate::{
    Incarnation,
    error::Error,
    key::{BadKey, Key, KeyReader},
    table::{Encoded, Index, IndexRows, Table},
    value::{self, BadValue},
};

/// The state of an operation that has its outcome here. Those are the mass, and nobody looks for them
/// by state: [`OperationsByState`] leaves them out.
pub const OPERATION_DONE: &str = "done";

/// Operations in the order of their clock, so that new rows share pages. The meta-id is part of the
/// key: whatever clock an author claims, it never meets a row of another set.
#[derive(Debug)]
pub struct Operations<R>(PhantomData<R>);

/// The operations of one set, in their order.
#[derive(Debug)]
pub struct OperationsBySet<R>(PhantomData<R>);

/// Operations without an outcome here, by what they wait for, in their order.
#[derive(Debug)]
pub struct OperationsByState<R>(PhantomData<R>);

/// Concurrent losers: `(meta-id, operation)`.
#[derive(Debug)]
pub struct Conflicts<R>(PhantomData<R>);

/// An operation within its set. The order of the keys is the order of the operations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationKey {
    pub clock: Stamp,
    pub origin: SiteName,
    pub incarnation: Incarnation,
    pub stay: u32,
    pub sequence: u64,
}

/// An operation and what it is found by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationRow<R> {
    /// What it waits for at this site, a word of the caller's, or [`OPERATION_DONE`].
    pub state: String,
    pub record: R,
}

impl Key for OperationKey {
    fn write(&self, out: &mut Vec<u8>) {
        self.clock.write(out);
        self.origin.write(out);
        self.incarnation.write(out);
        self.stay.write(out);
        self.sequence.write(out);
    }

    fn read(input: &mut KeyReader<'_>) -> Result<Self, BadKey> {
        Ok(Self {
            clock: Stamp::read(input)?,
            origin: SiteName::read(input)?,
            incarnation: Incarnation::read(input)?,
            stay: u32::read(input)?,
            sequence: u64::read(input)?,
        })
    }
}

impl<R: Record> Operations<R> {
    /// A row that another thread puts.
    pub fn encoded(key: (OperationKey, String), state: &str, record: &R) -> Result<Encoded<Self>, Error> {
        let row = OperationRow {
            state: state.to_owned(),
            record,
        };
        Encoded::new(key, &row, |(_, set), rows| {
            index_operation::<R>(set, &row.state, rows);
        })
    }
}

impl<R: Record> Table for Operations<R> {
    const NAME: &'static str = "operations";
    const INDEXES: &'static [&'static str] = &["operations.by_set", "operations.by_state"];
    type Key = (OperationKey, String);
    type Value = OperationRow<R>;

    fn index((_, set): &Self::Key, row: &OperationRow<R>, rows: &mut IndexRows) {
        index_operation::<R>(set, &row.state, rows);
    }

    fn index_stored((_, set): &Self::Key, value: &[u8], rows: &mut IndexRows) -> Result<(), BadValue> {
        let row: OperationRow<IgnoredAny> = value::decode(value)?;
        index_operation::<R>(set, &row.state, rows);
        Ok(())
    }
}

fn index_operation<R: Record>(set: &String, state: &String, rows: &mut IndexRows) {
    rows.add::<OperationsBySet<R>>(set);
    if state != OPERATION_DONE {
        rows.add::<OperationsByState<R>>(state);
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
