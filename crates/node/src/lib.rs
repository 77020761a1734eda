//! Replication at one site: the engine on a thread of its own, what it wants done, and the port through
//! which the data plane asks.
//!
//! Nothing that the engine wants done begins before its state is durable. It reaches the application, the
//! other sites, the clock and randomness only through [`Surroundings`] and `cheops_ports`.

mod asks;
mod caller;
mod calls;
mod commit_times;
mod comparisons;
mod coordinate;
mod core;
mod draft;
mod engine;
mod executor;
mod fetch;
mod fill;
mod finished;
#[doc(hidden)]
pub mod fuzzing;
mod group_asks;
mod hello;
mod ids;
mod inbox;
#[cfg(test)]
mod lab;
mod life;
mod mint;
mod missed;
pub mod model;
mod named;
mod names;
mod node;
mod operation_ref;
mod operator;
mod pack;
mod problems;
mod progress;
mod promises;
mod rows;
mod runner;
mod secret;
mod sign;
mod spooled;
mod stream;
mod strong;
mod surroundings;
mod task;
mod told;
mod upkeep;
mod verifications;
mod waiting;
mod wire;
mod write;

pub use engine::is_guarded;
#[doc(hidden)]
pub use fill::Fill;
pub use node::{Node, Options, StartError};
pub use operator::Operator;
pub use runner::{Runner, Work};
pub use surroundings::{Access, Surroundings};
