//! The planner: what a scope becomes for one request, before anything runs.
//!
//! [`plan`] is a pure function of the scope, the verb class and a [`View`] of the sites; [`explain`] is
//! the same with its reasons. A plan names only sites that the scope allows and has at least one member
//! wherever it has members. Nothing here asks a clock, the network or an application.

mod explain;
mod nearness;
mod planner;
mod refusal;
mod view;

pub use explain::{Explanation, explain};
pub use planner::plan;
pub use refusal::Refusal;
pub use view::View;
