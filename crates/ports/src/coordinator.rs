//! What the data plane asks of replication.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::{Known, Target};
use cheops_types::{KeptBody, NameRequest, NameVerdict, Outcome, Problem, ServiceName, SiteName, Visit};
use http::{Request, Response};

/// An answer that comes later, on any thread.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Replication at this site.
///
/// A request that concerns no replica set never gets here: [`cheops_plan::Presence`] says so first.
pub trait Coordinator: Send + Sync {
    /// The life of this site's store, for heartbeats: peers bring a site in again when it begins a new one.
    fn incarnation(&self) -> u64;

    /// The set that one resource belongs to. `id` is the resource's own id as a caller wrote it, a meta-id,
    /// a name, or this site's local id; `key` tells it among all of its kind here, its parents included, and
    /// is the same as `id` where it has none. An index read.
    fn find(&self, service: &str, kind: &str, id: &str, key: &str) -> Result<Option<Known>, Problem>;

    /// Accepts a write at this site: durable, then executed by this site's application, then answered.
    fn write(&self, write: Write) -> Pending<Reply>;

    /// Waits until this site has executed everything that `sites` have decided by now about a resource, and keeps others
    /// from writing to it here until what it gives is dropped. An error says why that cannot be told: what this site has may
    /// be old.
    fn latest(&self, of: Latest) -> Pending<Result<Held, Problem>>;

    /// A place for a body that is too long to be part of its operation.
    fn spool(&self) -> Result<Box<dyn Spooling>, Problem>;

    /// How an operation stands, as JSON; none when it is not known here.
    fn operation(&self, id: &str) -> Result<Option<Bytes>, Problem>;

    /// The body of a write that another site is to take over, once more.
    fn again(&self, body: KeptBody) -> Result<Body, Problem>;

    /// What this site, as the prime site of a container, says about a name.
    fn name(&self, request: NameRequest) -> Pending<Result<NameVerdict, Problem>>;

    /// Something that the agent of another site sends or asks. `path` is what follows
    /// [`cheops_types::headers::PEER_REPLICATION_PATH`].
    fn receive(&self, from: &SiteName, path: &str, body: Bytes) -> Pending<Result<Bytes, Problem>>;

    /// A payload that the agent of another site fetches, from `offset` on.
    fn payload(&self, from: &SiteName, hash: &str, offset: u64) -> Result<Body, Problem>;
}

/// A write to a replica set.
#[derive(Debug)]
pub struct Write {
    pub service: ServiceName,
    pub kind: String,
    pub target: Target,
    /// As the caller sent it, clean of everything that concerns one connection only.
    pub request: Request<KeptBody>,
    /// The whole scope, in canonical form; empty when the request has none.
    pub scope: String,
    pub prefer: Prefer,
    /// The site whose agent has handed it over; none for a caller of this site.
    pub from: Option<SiteName>,
}

/// A resource of sites that decide together.
#[derive(Debug, Clone)]
pub struct Latest {
    pub sites: Vec<SiteName>,
    pub service: ServiceName,
    pub kind: String,
    /// As [`Coordinator::find`] takes them.
    pub id: String,
    pub key: String,
}

/// Keeps a resource as it is at this site.
pub type Held = Box<dyn Send>;

/// How far a caller wants to wait (RFC 7240).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prefer {
    /// `wait`: until all sites have executed, so many seconds at most.
    pub wait_s: Option<u64>,
    /// `cheops-held`: until so many sites hold the operation.
    pub held: Option<u32>,
    /// `respond-async`: not even for this site's application.
    pub respond_async: bool,
    /// `handling=strict` with `wait`: a create that a site refuses is undone everywhere.
    pub strict: bool,
}

/// What became of a write.
#[derive(Debug)]
pub enum Reply {
    /// The application's answer, with its own ids. For `respond-async` a 202 without a body.
    Answered { response: Response<Bytes>, told: Told },
    /// Nothing executed here.
    Elsewhere(Elsewhere),
    /// No answer of the application; `outcome` says whether it may have executed.
    Failed {
        problem: Problem,
        outcome: Outcome,
        told: Option<Told>,
    },
}

/// Another site of the set may take the write.
#[derive(Debug)]
pub struct Elsewhere {
    /// Those that have a replica first.
    pub sites: Vec<SiteName>,
    /// The answer if none of them can.
    pub problem: Problem,
}

/// What the receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub set: Arc<str>,
    pub operation: Option<String>,
    pub held: u32,
    /// Every site of the set, this one first.
    pub sites: Vec<Visit>,
    /// False when what the caller wanted to wait for has not happened.
    pub complete: bool,
}

/// A body on its way to the disk.
pub trait Spooling: Send {
    fn write(&mut self, data: &[u8]) -> Result<(), Problem>;

    /// Makes it durable.
    fn finish(self: Box<Self>) -> Pending<Result<KeptBody, Problem>>;
}
