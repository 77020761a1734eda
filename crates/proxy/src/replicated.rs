//! Requests that concern replica sets: which they are, and what is different about them.
//!
//! Everything else about a request stays as it is: its plan, its order, its receipt. What is added is that
//! ids are rewritten on the way to and from a service, that a read goes to a site that has a replica, and
//! that a write is handed to replication instead of a service.

mod body;
mod concern;
mod course;
mod ids;
mod places;
mod prefer;
mod rewrite;
mod stream;
mod write;

use cheops_glue::Effect;
use cheops_net::{Body, Replay};
use cheops_plan::nearest_first;
use cheops_types::{Code, Plan, PlanKind, Problem, SiteName, VerbClass};
use http::{HeaderName, HeaderValue, Response, request};

use crate::{
    WorldView,
    execute::{self, Done, finish},
    job::{Caller, Job},
};
pub(crate) use body::is_json;
use concern::is_write;
pub(crate) use concern::{Concern, concerns, look};
use course::{Case, Course};
pub(crate) use places::Places;
pub(crate) use rewrite::{attempt, map_head};
pub(crate) use write::told_by;

/// Executes a request that concerns replica sets.
pub(crate) async fn execute(mut job: Job, plan: &Plan, body: Body) -> Response<Body> {
    let (kind, done) = match course(&job, plan) {
        Course::Planned => (plan.kind(), execute::planned(&job, plan, body).await),
        Course::OneOf(sites) => {
            let one = first_of(&job, sites);
            (plan.kind(), execute::planned(&job, &one, body).await)
        }
        Course::Accept(target) => write::accept(&mut job, target, body).await,
        Course::HandOver { set, sites } => {
            (PlanKind::Replicate, hand_over(&mut job, &set, sites, body).await)
        }
        Course::Refuse(problem) => (plan.kind(), Done::refused(job.here(), problem)),
    };
    finish(&job, kind, done)
}

/// The plan of a request that switches protocols: it goes to one replica.
pub(crate) fn plan_for_one(job: &Job, plan: Plan) -> Result<Plan, Problem> {
    let Some(concern) = &job.concern else {
        return Ok(plan);
    };
    let case = Case {
        is_write: false,
        ..case(job, concern, &plan)
    };
    match case.decide() {
        Course::OneOf(sites) => Ok(first_of(job, sites)),
        Course::Refuse(problem) => Err(problem),
        Course::Planned | Course::Accept(_) | Course::HandOver { .. } => Ok(plan),
    }
}

fn course(job: &Job, plan: &Plan) -> Course {
    let Some(concern) = &job.concern else {
        return Course::Planned;
    };
    case(job, concern, plan).decide()
}

fn case<'a>(job: &'a Job, concern: &'a Concern, plan: &'a Plan) -> Case<'a> {
    Case {
        here: job.here(),
        plan,
        known: concern.known.as_ref(),
        is_write: is_write(concern.effect),
        is_create: concern.effect == Effect::Create,
        is_upsert: concern.is_upsert,
        is_item: concern.is_item,
        is_list: job.verb == VerbClass::ReadCollection,
        can_be_replicated: concern.kind.is_some(),
        is_from_peer: job.caller == Caller::Peer,
        is_inside_replica: job.is_inside_replica(),
    }
}

/// Each site once, nearest first; late answers are hedged.
fn first_of(job: &Job, mut sites: Vec<SiteName>) -> Plan {
    sort_by_distance(job, &mut sites);
    let at = |site: SiteName| {
        if site == *job.here() {
            Plan::Local
        } else {
            Plan::Forward(site)
        }
    };
    match sites.len() {
        1 => at(sites.remove(0)),
        _ => Plan::FirstOf(sites.into_iter().map(at).collect()),
    }
}

fn sort_by_distance(job: &Job, sites: &mut [SiteName]) {
    let core = &job.core;
    nearest_first(
        sites,
        &WorldView::new(&core.world, core.shared.distances.load_full()),
    );
}

/// Another site accepts the write: the nearest one, and the next one only if it certainly did not.
async fn hand_over(job: &mut Job, set: &[SiteName], mut sites: Vec<SiteName>, body: Body) -> Done {
    sort_by_distance(job, &mut sites);
    put_set(&mut job.head, set);
    let plan = Plan::Fallback(sites.into_iter().map(Plan::Forward).collect());
    let replay = Replay::new(body, job.core.limits().replay_body_max_bytes);
    execute::run(job, &plan, &replay).await
}

const REPLICATE: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_REPLICATE);

/// Tells another agent which sites the set of a write has.
fn put_set(head: &mut request::Parts, set: &[SiteName]) {
    let names: Vec<&str> = set.iter().map(SiteName::as_str).collect();
    if let Ok(value) = HeaderValue::try_from(names.join(",")) {
        head.headers.insert(REPLICATE, value);
    }
}

/// The sites of the set that another agent's write is for; none where it named none.
pub(crate) fn named_set(head: &request::Parts) -> Result<Option<Vec<SiteName>>, Problem> {
    let Some(value) = head.headers.get(REPLICATE) else {
        return Ok(None);
    };
    let wrong = || Problem::new(Code::BadRequest, "the sites of the replica set cannot be read");
    let names = value.to_str().map_err(|_| wrong())?;
    let sites: Result<Vec<_>, _> = names.split(',').map(SiteName::new).collect();
    sites.map(Some).map_err(|_| wrong())
}

fn not_attached() -> Problem {
    Problem::new(
        Code::NotAvailable,
        "this site does not replicate: it has no store",
    )
}

fn unavailable(here: &SiteName) -> Problem {
    Problem::new(
        Code::ReplicaUnavailable,
        format!("site `{here}` is to have a replica but has none yet; ask another site or try again"),
    )
    .at(here)
}
