//! What the data plane and replication ask of each other, and nothing else.
//!
//! [`Coordinator`] is replication as the data plane sees it. [`Application`] and [`Peers`] are the data plane as
//! replication sees it: a replay goes to this site's services, and a message to another site, in the same way as a
//! caller's request. Neither side knows the other.

mod coordinator;
mod outgoing;

pub use coordinator::{Coordinator, Elsewhere, Held, Latest, Pending, Prefer, Reply, Spooling, Told, Write};
pub use outgoing::{Application, Later, NoAnswer, Peers};
