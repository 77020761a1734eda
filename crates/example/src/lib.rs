//! The example application: two small REST services with storage of their own.
//!
//! A takes orders and says hello; for both it calls B, which keeps items. They are written as if
//! there were one place in the world: neither knows of sites, and of what came with a request A
//! passes on to B only what [`Carry`] says, by default what any instrumented service would. What
//! is answered is in the storage file, and is there again after the process was killed.

mod a;
mod b;
mod b_client;
mod carry;
mod collection;
mod config;
mod failure;
mod request;
mod server;
mod storage;

pub use carry::{Carry, InvalidCarry};
pub use config::{Config, Service};
pub use server::serve;
