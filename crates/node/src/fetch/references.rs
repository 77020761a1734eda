//! Which sets refer to a payload: who may fetch it, and when it is no longer needed.

use cheops_replica::MetaId;
use cheops_store::{Error, PayloadHash, PayloadRef, Read as _, Table, WriteSession};

/// How many records of each set refer to a payload: `(hash, meta-id)`. Changed through [`retain`] and
/// [`release`] only.
#[derive(Debug)]
pub(crate) struct PayloadSets;

impl Table for PayloadSets {
    const NAME: &'static str = "payload_sets";
    type Key = (PayloadHash, String);
    type Value = u64;
}

/// Counts one more record of a set that refers to a payload.
pub(crate) fn retain(
    session: &mut WriteSession<'_>,
    set: &MetaId,
    payload: &PayloadRef,
) -> Result<(), Error> {
    cheops_store::retain(session, payload)?;
    let key = (payload.hash, set.as_str().to_owned());
    let records = session.get::<PayloadSets>(&key)?.unwrap_or(0);
    session.put::<PayloadSets>(&key, &(records + 1))
}

/// Counts one record less.
pub(crate) fn release(
    session: &mut WriteSession<'_>,
    set: &MetaId,
    payload: &PayloadRef,
) -> Result<(), Error> {
    cheops_store::release(session, payload)?;
    let key = (payload.hash, set.as_str().to_owned());
    match session.get::<PayloadSets>(&key)? {
        Some(records @ 2..) => session.put::<PayloadSets>(&key, &(records - 1)),
        _ => session.delete::<PayloadSets>(&key).map(drop),
    }
}
