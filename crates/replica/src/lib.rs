//! The replication engine: one resource, many sites, nothing lost.
//!
//! A pure function of state and event: [`step`] changes a [`Set`] and gives [`Effect`]s, which the
//! caller releases only after [`Site`] and [`Set`] are durable. It guarantees what the replication
//! contract says (`docs/decisions/006-replication-engine.md` maps each rule to its place): what was
//! acknowledged is not lost while a holder's disk lasts, nothing that is not harmless to repeat executes
//! twice, and replicas that heard the same end up the same. It never reads a clock, makes up an id,
//! talks to a network, a disk or an application.

mod bytes;
mod conflict;
mod context;
mod decision;
mod effect;
mod event;
mod id;
mod message;
pub mod names;
mod operation;
mod pairs;
mod record;
mod relation;
mod rules;
mod set;
mod site;
mod step;
mod vector;

pub use conflict::{Cause, Conflict};
pub use context::{Context, Tuning};
pub use decision::{Carried, Decision};
pub use effect::{Answer, Effect, Execution, Form, Proposal, Reason};
pub use event::{Attempt, Event, Found};
pub use id::{Author, LocalId, MetaId, OpId, Rank, Token};
pub use message::{Content, Message, Snapshot};
pub use operation::{
    Birth, Conditions, Draft, Footprint, Need, Operation, Recast, Recognise, Request, Secret, Verb,
};
pub use record::Record;
pub use relation::{Relation, loser, relation};
pub use rules::{PlainRules, Presence, Reading, Rules, default_reading};
pub use set::{
    Degraded, Digest, Division, Entry, Fence, Fenced, Install, Job, LogAside, Member, OperationView, Outcome,
    Passage, Peer, Phase, Report, Set, Standing, State, Wait, Want, Why, Work,
};
pub use site::{Age, Hello, Site, Welcome};
pub use step::{adopt, create, decided, receive, step};
pub use vector::Vector;
