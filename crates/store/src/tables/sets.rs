use std::marker::PhantomData;

use cheops_types::ServiceName;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use super::Record;
use crate::{
    error::Error,
    table::{Encoded, Index, IndexRows, Table},
    value::{self, BadValue},
};

/// Replica sets, by meta-id: what every request that may concern one asks for. The rows are small and
/// lie close together; what only a change needs is in [`Records`], which a look-up never touches.
#[derive(Debug)]
pub struct Sets<H>(PhantomData<H>);

/// Sets by what this site's application calls the replica: `(service, kind, local key)`.
#[derive(Debug)]
pub struct SetsByLocalKey<H>(PhantomData<H>);

/// Sets by the name that a client chose: `(service, kind, name)`. It finds a set whose replica does
/// not exist here yet, and every one of several sets that had the name in turn.
#[derive(Debug)]
pub struct SetsByName<H>(PhantomData<H>);

/// A replica set: what it is found by, and what a look-up wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRow<H> {
    pub service: ServiceName,
    pub kind: String,
    /// Of the replica here, as soon as there is one: the ids of its parents and its own, joined by `/`.
    pub local_key: Option<String>,
    /// Where the client chose the id: the same as `local_key` will be.
    pub name: Option<String>,
    pub head: H,
}

impl<H: Record> Table for Sets<H> {
    const NAME: &'static str = "sets";
    const INDEXES: &'static [&'static str] = &["sets.by_local_key", "sets.by_name"];
    type Key = String;
    type Value = SetRow<H>;

    fn index(_: &String, row: &SetRow<H>, rows: &mut IndexRows) {
        index_set::<H, H>(row, rows);
    }

    fn index_stored(_: &String, value: &[u8], rows: &mut IndexRows) -> Result<(), BadValue> {
        index_set::<H, IgnoredAny>(&value::decode(value)?, rows);
        Ok(())
    }
}

/// A row whose head may have been skipped.
fn index_set<H: Record, S>(row: &SetRow<S>, rows: &mut IndexRows) {
    let key = |text: &String| (row.service.clone(), row.kind.clone(), text.clone());
    if let Some(local_key) = &row.local_key {
        rows.add::<SetsByLocalKey<H>>(&key(local_key));
    }
    if let Some(name) = &row.name {
        rows.add::<SetsByName<H>>(&key(name));
    }
}

impl<H: Record> Index for SetsByLocalKey<H> {
    const NAME: &'static str = "sets.by_local_key";
    type Table = Sets<H>;
    type Key = (ServiceName, String, String);
}

impl<H: Record> Index for SetsByName<H> {
    const NAME: &'static str = "sets.by_name";
    type Table = Sets<H>;
    type Key = (ServiceName, String, String);
}

/// The whole state of each set but its operations, by meta-id.
#[derive(Debug)]
pub struct Records<R>(PhantomData<R>);

/// Sets with something left to do: the only ones that a start has to load.
#[derive(Debug)]
pub struct UnsettledRecords<R>(PhantomData<R>);

/// The state of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRow<R> {
    /// Something is left to do for this set without anyone asking.
    pub unsettled: bool,
    pub record: R,
}

impl<R: Record> Records<R> {
    /// A row that another thread puts.
    pub fn encoded(meta: String, unsettled: bool, record: &R) -> Result<Encoded<Self>, Error> {
        Encoded::new(meta, &RecordRow { unsettled, record }, |_, rows| {
            if unsettled {
                rows.add::<UnsettledRecords<R>>(&());
            }
        })
    }
}

impl<R: Record> Table for Records<R> {
    const NAME: &'static str = "records";
    const INDEXES: &'static [&'static str] = &["records.unsettled"];
    type Key = String;
    type Value = RecordRow<R>;

    fn index(_: &String, row: &RecordRow<R>, rows: &mut IndexRows) {
        if row.unsettled {
            rows.add::<UnsettledRecords<R>>(&());
        }
    }

    fn index_stored(_: &String, value: &[u8], rows: &mut IndexRows) -> Result<(), BadValue> {
        if value::decode::<RecordRow<IgnoredAny>>(value)?.unsettled {
            rows.add::<UnsettledRecords<R>>(&());
        }
        Ok(())
    }
}

impl<R: Record> Index for UnsettledRecords<R> {
    const NAME: &'static str = "records.unsettled";
    type Table = Records<R>;
    type Key = ();
}

/// Who waits for whom: `(meta-id that is waited for, meta-id that waits)`.
#[derive(Debug)]
pub struct Needs;

impl Table for Needs {
    const NAME: &'static str = "needs";
    type Key = (String, String);
    type Value = ();
}

/// Who has which name in a container that spans sites: `(meta-id of the container, kind and key)`.
#[derive(Debug)]
pub struct Names<R>(PhantomData<R>);

impl<R: Record> Table for Names<R> {
    const NAME: &'static str = "names";
    type Key = (String, String);
    type Value = R;
}
