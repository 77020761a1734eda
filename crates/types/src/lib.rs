//! The words of Cheops as types: names, verb classes, plans, receipts, limits and error codes.
//!
//! Every other crate speaks in these. Nothing here performs I/O, reads a clock or knows an
//! application.

mod body;
mod caller;
mod clock;
mod code;
mod consistency;
mod distances;
pub mod headers;
mod limits;
mod name;
mod names;
mod problem;
mod receipt;
mod slot;
mod span;
mod verb;
mod words;

pub use body::KeptBody;
pub use caller::Caller;
pub use clock::{Ahead, HybridClock, Stamp};
pub use code::Code;
pub use consistency::Consistency;
pub use distances::{Distances, Health, Pulse};
pub use limits::{Limit, Limits};
pub use name::{InvalidName, ServiceName, SiteName, is_name};
pub use names::{NameAsk, NameRequest, NameVerdict};
pub use problem::Problem;
pub use receipt::{InvalidReceipt, Outcome, PlanKind, Receipt, Visit};
pub use slot::Slot;
pub use span::{Share, Span, SpanForm, Unreserved};
pub use verb::VerbClass;
pub use words::{listed, nearest};
