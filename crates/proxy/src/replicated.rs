//! Requests that concern replica sets: which they are, and what is different about them.
//!
//! Everything else about a request stays as it is: its plan, its order, its receipt. What is added is that
//! ids are rewritten on the way to and from a service, that a read goes to a site that has a replica, and
//! that a write is handed to replication instead of a service.

mod body;
mod concern;
mod course;
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
use cheops_glue::Effect;
use cheops_net::{Body, Replay};
use cheops_plan::{Cross, Known, Target, WriteBody, nearest_first};
use cheops_types::{Code, Plan, PlanKind, Problem, SiteName, VerbClass};
use http::{HeaderName, HeaderValue, Response, request};

use crate::{
    WorldView,
    cross::{self, Container, Way},
    execute::{self, Done, finish},
    job::{Caller, Job},
};
pub(crate) use body::is_json;
use concern::is_write;
pub(crate) use concern::{Concern, concerns, look};
use course::{Case, Course};
pub(crate) use places::Places;
pub(crate) use reading::check_path;
pub(crate) use rewrite::{attempt, map_head};
pub(crate) use write::told_by;

/// Executes a request that concerns replica sets.
pub(crate) async fn execute(mut job: Job, plan: &Plan, body: Body) -> Response<Body> {
    if let Some((container, way)) = way(&mut job, plan) {
        let (kind, done) = cross::execute(&mut job, &container, way, body).await;
        return finish(&job, kind, done);
    }
    if let Some((kind, known)) = divided(&job, plan) {
        let done = cross::read_whole(&job, &kind, &known).await;
        return finish(&job, PlanKind::Cross, done);
    }
    let gather = match plan {
        Plan::Cross(sites)
            if !job
                .concern
                .as_ref()
                .is_some_and(|concern| is_write(concern.effect)) =>
        {
            Some(Plan::Gather(sites.clone()))
        }
        _ => None,
    };
    let plan = gather.as_ref().unwrap_or(plan);
    let (kind, done) = match course(&job, plan) {
        Course::Planned => (plan.kind(), execute::planned(&job, plan, body).await),
        Course::Owner(sites) => {
            let done = match cross::plan_for_one(&job, &sites).await {
                Ok(owner) => execute::planned(&job, &owner, body).await,
                Err(problem) => Done::refused(job.here(), problem),
            };
            (PlanKind::Cross, done)
        }
        Course::Accept(Target::Cross(cross)) => {
            let cross = cross_of(&job.head.headers, &cross.sites);
            write::accept(&mut job, Target::Cross(cross), body).await
        }
        Course::OneOf(sites) => {
            let one = first_of(&job, sites);
            (plan.kind(), execute::planned(&job, &one, body).await)
        }
        Course::Accept(target) => write::accept(&mut job, target, body).await,
        Course::HandOver { set, sites } => {
            if matches!(plan, Plan::Cross(_)) {
                put_cross(&mut job.head);
            }
            (PlanKind::Replicate, hand_over(&mut job, &set, sites, body).await)
        }
        Course::Refuse(problem) => (plan.kind(), Done::refused(job.here(), problem)),
    };
    finish(&job, kind, done)
}

/// The plan of a request that switches protocols: it goes to one replica, or to where its resource is.
pub(crate) async fn plan_for_one(job: &mut Job, plan: Plan) -> Result<Plan, Problem> {
    match way(job, &plan) {
        Some((_, Way::Owner(sites) | Way::Gather(sites))) => return cross::plan_for_one(job, &sites).await,
        Some((_, Way::Refuse(problem))) => return Err(problem),
        Some(_) | None => {}
    }
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
        Course::Owner(sites) => cross::plan_for_one(job, &sites).await,
        Course::Planned | Course::Accept(_) | Course::HandOver { .. } => Ok(plan),
    }
}

/// What a request in a container that spans sites does there; none where it is as any other.
fn way(job: &mut Job, plan: &Plan) -> Option<(Container, Way)> {
    let concern = job.concern.as_ref()?;
    let container = concern.container.as_ref()?;
    // What is a resource of several sites itself is found by that.
    if concern.is_own {
        return None;
    }
    let makes = concern.effect == Effect::Create || concern.is_upsert;
    if job.caller == Caller::Peer && !makes {
        return None;
    }
    let (profile, uri) = (&job.core.world.profile, &job.head.uri);
    let case = cross::Case {
        here: job.here(),
        extents: container.sites(),
        plan,
        is_placed: job.is_placed(),
        is_write: is_write(concern.effect),
        is_create: concern.effect == Effect::Create && !concern.is_item,
        is_upsert: concern.is_upsert,
        is_item: concern.is_item,
        is_list: job.verb == VerbClass::ReadCollection,
        is_stream: profile.is_stream(&job.service.name, uri.path(), uri.query())
            || concern.effect == Effect::Free,
    };
    let way = case.decide()?;
    let container = job.concern.as_mut()?.container.take()?;
    Some((container, way))
}

/// The divided resource that a request wants to see as a whole, with its kind. Whoever names one site wants the part of
/// that.
fn divided(job: &Job, plan: &Plan) -> Option<(String, Known)> {
    let concern = job.concern.as_ref()?;
    let known = concern
        .known
        .as_ref()
        .filter(|known| concern.is_own && known.is_divided())?;
    let is_read = concern.effect == Effect::Read && job.head.method == http::Method::GET;
    let (profile, uri) = (&job.core.world.profile, &job.head.uri);
    let is_stream = profile.is_stream(&job.service.name, uri.path(), uri.query());
    let wants_whole = !job.is_placed() || matches!(plan, Plan::Cross(_) | Plan::Gather(_));
    let is_meant = is_read && !is_stream && wants_whole && concern.is_item && job.caller == Caller::User;
    let is_there = known.standing == cheops_plan::Standing::Member;
    let kind = concern.kind.clone()?;
    (is_meant && is_there).then(|| (kind, known.clone()))
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
pub(crate) async fn make(job: &mut Job, sites: &[SiteName], target: Target, body: WriteBody) -> Done {
    if sites.contains(job.here()) {
        return write::write(job, target, body).await;
    }
    if matches!(target, Target::Cross(_)) {
        put_cross(&mut job.head);
    }
    put_named(&mut job.head);
    match body {
        WriteBody::Inline(bytes) => hand_over(job, sites, sites.to_vec(), Body::full(bytes)).await,
        WriteBody::Spooled { .. } => Done::refused(job.here(), not_attached()),
    }
}

/// What is to span sites, as a request's preferences say.
pub(crate) fn cross_of(headers: &http::HeaderMap, sites: &[SiteName]) -> Cross {
    let (weights, unreserved) = prefer::cross(headers);
    Cross {
        sites: sites.to_vec(),
        weights,
        unreserved,
    }
}

const NAMED: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_NAMED);

/// Tells another agent that the name of what it makes is reserved.
pub(crate) fn put_named(head: &mut request::Parts) {
    head.headers.insert(NAMED, HeaderValue::from_static("1"));
}

const CROSS: HeaderName = HeaderName::from_static(cheops_types::headers::PEER_CROSS);

fn put_cross(head: &mut request::Parts) {
    head.headers.insert(CROSS, HeaderValue::from_static("1"));
}

/// Whether another agent's write is to make something that spans sites.
pub(crate) fn is_cross(head: &request::Parts) -> bool {
    head.headers.contains_key(CROSS)
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
