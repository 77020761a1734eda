//! Descriptions of applications, compiled: what a request addresses and does, where ids stand, how lists
//! look and are paged, what carries a workflow's scope.
//!
//! A [`Profile`] is read once from TOML (or is [`Profile::plain`], the ordinary REST conventions) and
//! then only looked up. Merging lists and exchanging ids work on the text: what is not an exchanged id, a
//! provenance member or a page token leaves as the bytes it came in.
//! Everything here is a pure function of its arguments: no I/O, no clock, and no application's name
//! outside the built-in files.

mod address;
mod carrier;
mod edit;
mod error;
mod identity;
mod json;
mod key;
mod kind;
mod list;
mod merge;
mod page;
mod percent;
mod pointer;
mod profile;
mod query;
mod rewrite;
mod round;
mod routes;
mod selector;
mod suggest;
mod token;
mod trail;
mod url;

pub use address::Address;
pub use carrier::{Carrier, KeyFormat};
pub use edit::NotJson;
pub use error::GlueError;
pub use identity::Identity;
pub use key::{join as join_key, split as split_key};
pub use kind::{
    Effect, IdRule, Kind, Meaning, MetaFormat, Recognise, Reference, Rendered, Search, Sighting, Touches,
};
pub use list::{Items, ListShape, Paging};
pub use merge::{MergeError, Merged, Part, Share};
pub use page::{ListPage, NotAList};
pub use pointer::{InvalidPointer, Pointer};
pub use profile::Profile;
pub use query::GatherQuery;
pub use rewrite::{Ids, MappedList, Own};
pub use round::{Fetch, Round};
