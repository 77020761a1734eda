//! Requests that concern replica sets: what is different about carrying them out.
//!
//! Ids are rewritten on the way to and from a service, and a write is handed to replication instead of a service.

mod body;
pub mod fuzzing;
mod ids;
mod places;
mod prefer;
mod reading;
mod rewrite;
mod shown;
mod stream;
mod write;

use bytes::Bytes;
use cheops_net::{Body, Replay};
use cheops_plan::{Decided, Plan, Remainder, Target, WriteBody, nearest_first};
use cheops_types::{Code, Problem, SiteName};
use http::{HeaderName, HeaderValue, Response, request};

use crate::{
    WorldView, cross,
    execute::{self, Done, finish},
    job::{Caller, Job},
};
pub(crate) use body::is_json;
pub(crate) use places::Places;
pub(crate) use prefer::cross as preferred_span;
pub(crate) use reading::{check_path, check_path_of_set};
pub(crate) use rewrite::{attempt, map_head};
pub(crate) use write::told_by;

/// The ids of replicas in an answer of this site's service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerIds {
    /// This site's own.
    Local,
    /// Those that are the same at all sites.
    Shown,
    /// Those too, and what is a replica is told: the answer may become part of a merged list.
    Told,
}

impl AnswerIds {
    pub(crate) fn of(decided: &Decided, caller: Caller) -> Self {
        let Some(concern) = &decided.concern else {
            return Self::Local;
        };
        match caller {
            // A service knows its own site's ids, but in a list of several sites they would mean nothing.
            _ if decided.is_merged || concern.container.is_some() => Self::Told,
            Caller::Peer => Self::Told,
            Caller::User => Self::Shown,
            Caller::Service => Self::Local,
        }
    }
}

/// Carries out a plan that only replication can, and makes the answer.
pub(crate) async fn execute(mut job: Job, plan: &Plan, body: Body) -> Response<Body> {
    let (kind, done) = match plan {
        Plan::Accept(target) => write::accept(&mut job, target.clone(), plan.kind(), body).await,
        Plan::HandOver { to, target } => {
            let remainder = Remainder::accept(target);
            let done = hand_over(&mut job, &remainder, to.clone(), body).await;
            (plan.kind(), done)
        }
        Plan::Owner(sites) => (plan.kind(), cross::change(&mut job, sites, None, body).await),
        Plan::Whole(sites) => (plan.kind(), cross::read_whole(&job, sites).await),
        Plan::Make(make) => (plan.kind(), cross::make(&mut job, make, body).await),
        _ => (plan.kind(), execute::planned(&job, plan, body).await),
    };
    finish(&job, kind, done)
}

/// Another site accepts the write: the first of these, and the next one only if it certainly did not.
async fn hand_over(job: &mut Job, remainder: &Remainder, to: Vec<SiteName>, body: Body) -> Done {
    put_remainder(&mut job.head, remainder);
    let plan = Plan::Fallback(to.into_iter().map(Plan::Forward).collect());
    let replay = Replay::new(body, job.core.limits().replay_body_max_bytes);
    execute::run(job, &plan, &replay).await
}

fn nearest(job: &Job, mut sites: Vec<SiteName>) -> Vec<SiteName> {
    let core = &job.core;
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    nearest_first(&mut sites, &view);
    sites
}

/// Whether names can be found in a request's body.
pub(crate) fn is_readable_body(job: &Job) -> bool {
    body::is_readable(&job.head.headers)
}

/// The body of a create as it is.
pub(crate) async fn whole(job: &Job, body: Body) -> Result<Bytes, Problem> {
    body::whole(job, body).await
}

/// The body of a create, in JSON where a name stands in it.
pub(crate) async fn whole_json(job: &Job, body: Body) -> Result<Bytes, Problem> {
    match rewrite::need(job) {
        body::Need::Json => bytes(job, body).await,
        body::Need::Bytes => whole(job, body).await,
    }
}

/// A body that is to be changed, as a whole.
pub(crate) async fn bytes(job: &Job, body: Body) -> Result<Bytes, Problem> {
    body::json(job, &job.head.headers, body).await
}

/// Makes a resource of several sites, here or at one of them.
pub(crate) async fn make(job: &mut Job, target: Target, body: Bytes) -> Done {
    job.is_reserved = true;
    if target.sites().contains(job.here()) {
        return write::write(job, target, WriteBody::Inline(body)).await;
    }
    let remainder = Remainder::accept(&target).named();
    let to = nearest(job, target.sites().to_vec());
    hand_over(job, &remainder, to, Body::full(body)).await
}

const PLAN: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_PLAN);

/// Tells another agent what is left of the plan.
pub(crate) fn put_remainder(head: &mut request::Parts, remainder: &Remainder) {
    if let Ok(value) = HeaderValue::try_from(remainder.to_string()) {
        head.headers.insert(PLAN, value);
    }
}

/// What another agent has left to this one.
pub(crate) fn remainder(head: &request::Parts) -> Result<Remainder, Problem> {
    let Some(value) = head.headers.get(PLAN) else {
        return Ok(Remainder::default());
    };
    Remainder::parse(value.to_str().unwrap_or_default())
}

fn not_attached() -> Problem {
    Problem::new(
        Code::NotAvailable,
        "this site does not replicate: it has no store",
    )
}
