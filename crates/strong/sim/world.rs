//! A world of sites in memory with virtual time: everything that can be cut, crash or be late is, and
//! all of it follows from a seed.

#![allow(dead_code, unreachable_pub, clippy::missing_panics_doc)]

pub mod app;
pub mod check;
pub mod client;
pub mod dice;
pub mod net;
pub mod play;
pub mod site;
