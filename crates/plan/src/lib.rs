//! The planner: what a scope becomes for one request, before anything runs.
//!
//! [`plan`] is a pure function of the scope, the verb class and a [`View`] of the sites; [`explain`] is
//! the same with its reasons, and [`at_one_site`] what is left of a plan where one site is enough. A plan names only sites that the scope allows and has at least one member
//! wherever it has members. Nothing here asks a clock, the network or an application.
//!
//! [`Coordinator`] is the port to replication: what the data plane asks of it, and nothing else.
//! [`Presence`] says, without asking it, that a resource is certainly not replicated here.

mod coordinator;
mod explain;
mod nearness;
mod one;
mod planner;
mod presence;
mod refusal;
mod view;

pub use coordinator::{
    Chunks, Coordinator, Cross, Elsewhere, Known, Pending, Prefer, Reply, Spooling, Standing, Target, Told,
    Write, WriteBody,
};
pub use explain::{Explanation, explain};
pub use nearness::nearest_first;
pub use one::at_one_site;
pub use planner::plan;
pub use presence::Presence;
pub use refusal::Refusal;
pub use view::View;
