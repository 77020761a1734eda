use serde::{Deserialize, Serialize};

use crate::{table::Table, value};

/// The logs of the groups that this site is a member of: group, then index.
#[derive(Debug)]
pub struct GroupLog;

/// What else this site has promised in a group: group, then what it is.
#[derive(Debug)]
pub struct GroupState;

/// Something that only the caller understands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob(#[serde(with = "value::bytes")] pub Vec<u8>);

impl Table for GroupLog {
    const NAME: &'static str = "groups.log";
    type Key = (String, u64);
    type Value = Blob;
}

impl Table for GroupState {
    const NAME: &'static str = "groups.state";
    type Key = (String, String);
    type Value = Blob;
}
