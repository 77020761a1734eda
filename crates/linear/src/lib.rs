//! Is a history linearizable? For suites that write and read through several sites and note what they were told.
//!
//! A history is a list of [`Operation`]s on keys that hold a value or nothing: when each was invoked, when its answer
//! came, and what that was. It is *linearizable* when there is one order of the operations of each key in which every
//! answer is right and which contradicts no clock: what was answered before something else was invoked comes before
//! it. An operation without an answer may have its place at any time after it was invoked, or none.
//!
//! [`check()`] never guesses. It finds an order, or has tried all of them in effect, or says that this took more steps
//! than it was given ([`TooHard`]). A [`Violation`] shows the first answer that no order explains and the few
//! operations that leave it no place.
//!
//! Nothing here reads a clock, a file or the environment.

mod check;
mod explain;
mod history;
mod operation;
mod search;
mod shrink;
mod steps;
mod timeline;

pub use check::{Report, STEPS_MAX, TooHard, check};
pub use explain::{Reason, Violation};
pub use operation::{Action, Operation, Outcome};
