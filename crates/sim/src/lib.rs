//! A seeded simulator of replicating sites.
//!
//! Many sites, each with an agent, a disk, a clock and an application, in one process and one thread.
//! Messages get lost, come twice, late and out of order; links are cut one way or both; agents crash at
//! every moment of a step; applications are slow, fail and keep silent; clocks are wrong. Everything
//! follows from one seed. After a fault phase all is healed, an operator does what only operators can,
//! and the invariants are checked against what clients were told. It tests the engine alone: no socket,
//! no file, no real time.

mod app;
mod describe;
mod errand;
pub mod hostile;
pub mod invariant;
mod known;
mod mutant;
pub mod names;
mod node;
mod oracle;
mod plan;
mod rng;
mod rules;
mod run;
mod shrink;
mod story;
mod telling;
mod twist;
mod without;
mod workload;
mod world;

pub use app::{App, Change, Chosen, Resource};
pub use describe::describe;
pub use known::{known, pinned};
pub use mutant::Mutant;
pub use node::{Disk, Node};
pub use oracle::Oracle;
pub use plan::{Actions, Plan, Twists};
pub use rng::Rng;
pub use run::{Failure, Summary, run, run_without, shrink, story, trace};
pub use story::Story;
pub use without::{Calm, Without, parse_range};
pub use world::{Errand, Happening, Meddling, Watch, World};
