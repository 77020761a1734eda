//! A request's life at one agent: identify, scope, check, plan, execute, answer.
//!
//! A plain request passes through with what a plain proxy would do and nothing else. For any other
//! the answer carries a receipt, and a request whose answer was lost is never repeated unless it
//! certainly did not execute or only reads. It knows no application and keeps nothing on disk.

mod answer;
mod attempt;
mod carry;
mod client_port;
mod context_free;
mod core;
mod correlation;
mod counters;
mod cross;
mod discovery;
mod execute;
mod facts;
mod gather;
mod hands;
mod head;
mod identity;
mod job;
mod key;
mod operation;
mod order;
mod peer_port;
mod proxy;
mod replicated;
mod strict;
mod tunnel;
mod view;
mod world;

pub use correlation::{Correlation, InvalidSaved, SavedScope};
pub use counters::{Counted, Counters};
pub use facts::{ExplainAsk, Explained, explain_request};
pub use hands::{Hands, NoAnswer};
pub use key::KeyMaker;
pub use proxy::{Proxy, Role, Shared, Tag};
#[doc(hidden)]
pub use replicated::fuzzing;
pub use view::WorldView;
pub use world::{ServiceEntry, World};
