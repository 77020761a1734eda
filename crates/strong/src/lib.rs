//! One Raft group per list of founding sites: the log that orders the writes of strong sets.
//!
//! A write is an *intent*, which a majority of the members holds before anything executes; then the
//! application of the leader's site decides; then an *outcome*, which all members conclude. The caller
//! is answered when the outcome is committed and concluded at the leader's site. Reads are linearizable
//! at every member.
//!
//! It knows neither the store nor the network nor the engine nor an application: they are [`Disks`],
//! [`Wire`] and [`Sets`]. It runs on one thread, and all its random numbers come from a seed.

mod codec;
mod command;
pub mod disk;
mod error;
mod flaws;
mod founding;
mod group;
mod groups;
mod log_store;
mod machine;
mod member;
mod network;
mod runtime;
mod sets;
mod site;
mod state;
mod status;
mod tuning;
mod types;
mod wire;

pub use command::{Command, Intent, Token, Verdict};
pub use disk::{Disk, Disks, Durable, Loaded, Record};
pub use error::{ChangeError, ReadError, Refused, WriteError};
#[doc(hidden)]
pub use flaws::Flaws;
pub use founding::{Founding, GroupId, InvalidGroupId, MEMBERS_MAX};
pub use group::ReadGuard;
pub use groups::{GROUPS_FROM_PEER_MAX, Groups, Parts};
pub use member::Member;
pub use sets::{Decision, Sets, Undecided};
pub use state::{DECIDED_MAX, Effect, State};
pub use status::GroupStatus;
pub use tuning::Tuning;
pub use wire::{Unreached, Wire};
