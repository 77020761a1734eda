//! The one decision about a request: what is known of it, and its scope, become a plan.
//!
//! [`decide`] is a pure function of a [`Request`], what replication has to do with it ([`Concern`]), and a [`View`] of
//! the sites; told to somebody who listens ([`Tell`]), it gives its reasons. A [`Plan`] names everything that will happen. Whoever
//! carries it out decides nothing. Nothing here asks a clock, the network or an application.
//!
//! [`Presence`] says, without asking replication, that a resource is certainly not replicated here.

mod asked;
mod decide;
mod explain;
mod facts;
mod known;
mod nearness;
mod plan;
mod planner;
mod presence;
mod remainder;
mod view;

pub use asked::Asked;
pub use decide::{Decided, cannot_span, decide, unavailable};
pub use explain::{Silent, Tell};
pub use facts::{Concern, Container, Party, Request, Wish};
pub use known::{Known, Standing};
pub use nearness::nearest_first;
pub use plan::{Cross, Make, Place, Plan, Target};
pub use planner::asked;
pub use presence::Presence;
pub use remainder::Remainder;
pub use view::View;
