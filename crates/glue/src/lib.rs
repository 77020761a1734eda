//! Descriptions of applications, compiled: what a request addresses and does, where ids stand, how lists
//! look and are paged, what carries a workflow's scope.
//!
//! A [`Profile`] is read once from TOML (or is [`Profile::plain`], the ordinary REST conventions) and
//! then only looked up. Merging lists and exchanging ids work on the text: what is not an exchanged id, a
//! provenance member or a page token leaves as the bytes it came in.
//! Everything here is a pure function of its arguments: no I/O, no clock, and no application's name
//! outside the built-in files.

mod address;
mod caller;
mod calls;
mod carrier;
mod container;
mod context_free;
mod edit;
mod error;
mod identity;
mod json;
mod key;
mod kind;
mod link;
mod list;
mod marks;
mod merge;
mod page;
mod pattern;
mod percent;
mod pointer;
mod profile;
mod query;
mod reading;
mod rewrite;
mod round;
mod routes;
mod selector;
mod streams;
mod token;
mod trail;
mod tree;
mod url;
mod watch;
mod wildcard;
mod yaml;

pub use address::{Address, Own};
pub use caller::{CallerRules, Certificate, Impersonate, Named, StandIn, Verified, Verify};
pub use carrier::{Carrier, KeyFormat};
pub use container::Container;
pub use context_free::{ByCredential, ContextFree};
pub use edit::NotJson;
pub use error::GlueError;
pub use identity::Identity;
pub use key::{join as join_key, split as split_key};
pub use kind::{
    Changed, Effect, IdRule, Kind, Meaning, MetaFormat, NotCounted, Recognise, Recorded, Reference, Refusal,
    Rendered, Search, Sighting, Stage, Touches,
};
pub use list::{Column, Form, Items, ListShape, NextStyle, Paging, Watch};
pub use merge::{MergeError, Merged, Part};
pub use page::{ListPage, NotAList};
pub use pointer::{InvalidPointer, Pointer};
pub use profile::Profile;
pub use query::GatherQuery;
pub use reading::{Doing, Reading, has_one_reading};
pub use rewrite::{Ids, MappedList};
pub use round::{Fetch, Round, Share};
pub use watch::{Versions, with_version_of};
pub use yaml::{is_yaml, json_of_yaml};
