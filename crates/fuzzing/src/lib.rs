//! What strangers send, as functions from bytes ([`Target`]), and a driver that hunts for inputs that break them.
//!
//! A target panics where something that must hold does not; it never does I/O. The driver runs on stable Rust:
//! it mutates a kept corpus, without knowledge of what the code does with it. The programs in `fuzz/` hand the same
//! functions to libFuzzer, which has that knowledge and needs a nightly compiler. [`framing`] sends bytes through a
//! whole agent instead. Nothing here is part of the agent.

mod corpus;
mod dice;
pub mod framing;
mod hunt;
mod judge;
mod memory;
mod mutate;
mod shrink;
mod targets;

pub use corpus::Corpus;
pub use dice::Dice;
pub use hunt::{Budget, Hunt, Hunted};
pub use judge::{Finding, Judge};
pub use mutate::Mutator;
pub use shrink::shrink;
pub use targets::Target;
