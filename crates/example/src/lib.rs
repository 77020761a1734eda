//! The example application: two small REST services with storage of their own.
//!
//! A takes orders and says hello; for both it calls B, which keeps items, labels and files. They are
//! written as if there were one place in the world: neither knows of sites, and of what came with a
//! request A passes on to B only what [`Carry`] says, by default what any instrumented service would.
//! What is answered is in a file, and is there again after the process was killed.
//!
//! Ids come in all ways that applications have: orders and items get numbers that the service chooses,
//! labels are named by whoever makes them, files get a uuid that may be chosen.

mod a;
mod b;
mod b_client;
mod carry;
mod collection;
mod config;
mod failure;
mod if_match;
mod request;
mod server;
mod storage;
mod token;
mod uuid;

pub use carry::{Carry, InvalidCarry};
pub use config::{Config, Service};
pub use server::serve;
