//! Descriptions of applications, compiled: what a request addresses, how lists look and are paged,
//! what carries a workflow's scope.
//!
//! A [`Profile`] is read once from TOML (or is [`Profile::plain`], the ordinary REST conventions) and
//! then only looked up. Merging works on the text of the answers: an item, and every other member of
//! an answer, leaves as the bytes it came in, but for the provenance member and the page token.
//! Everything here is a pure function of its arguments: no I/O, no clock, and no application's name
//! outside the built-in files.

mod carrier;
mod error;
mod identity;
mod json;
mod list;
mod merge;
mod page;
mod percent;
mod pointer;
mod profile;
mod query;
mod round;
mod routes;
mod suggest;
mod token;

pub use carrier::{Carrier, KeyFormat};
pub use error::GlueError;
pub use identity::Identity;
pub use list::{Items, ListShape, Paging};
pub use merge::{MergeError, Merged, Part, Share};
pub use page::{ListPage, NotAList};
pub use pointer::{InvalidPointer, Pointer};
pub use profile::Profile;
pub use query::GatherQuery;
pub use round::{Fetch, Round};
