//! A request's life at one agent: identify, scope, check, plan, execute, answer.
//!
//! A plain request passes through with what a plain proxy would do and nothing else. For any other
//! the answer carries a receipt, and a request whose answer was lost is never repeated unless it
//! certainly did not execute or only reads. It knows no application and keeps nothing on disk.

mod answer;
mod attempt;
mod body;
mod carry;
mod client_port;
mod core;
mod correlation;
mod counters;
mod cross;
mod discovery;
mod done;
mod execute;
mod facts;
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod head;
mod hex;
mod job;
mod key;
mod latest;
mod listener;
mod memory;
mod operation;
mod own_requests;
mod peer_port;
mod pieces;
mod prefer;
mod proxy;
mod remainder;
mod run;
mod service;
mod shared;
mod tunnel;
mod view;
mod world;
mod write;

pub use correlation::{Correlation, InvalidSaved, SavedScope};
pub use counters::{Counted, Counters};
pub use facts::{ExplainAsk, Explained, explain_request};
pub use key::KeyMaker;
pub use listener::{Role, Tag};
pub use own_requests::OwnRequests;
pub use proxy::Proxy;
pub use shared::Shared;
pub use view::WorldView;
pub use world::{ServiceEntry, World};
