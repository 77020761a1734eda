//! Where something in a container is, and changes of it there.

use bytes::Bytes;
use cheops_net::{Body, Replay};
use cheops_plan::{Place, Plan};
use cheops_types::{Code, Health, Outcome, Problem, SiteName};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::{
    HeaderName, HeaderValue, Method, Uri,
    header::{
        ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
        IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING,
    },
};
use http_body::Body as _;

use super::create;
use crate::{
    attempt::Answer,
    body::{self, is_json},
    done::Done,
    head,
    job::Job,
    run,
};

/// Request headers that speak of the write, not of what it is about.
const ABOUT_WRITE: [HeaderName; 9] = [
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    EXPECT,
    IF_MATCH,
    IF_NONE_MATCH,
    IF_MODIFIED_SINCE,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

/// Where a resource is.
#[derive(Debug)]
pub(super) enum Found {
    At(SiteName),
    /// All sites have answered that they have none.
    Nowhere,
    /// These have not answered.
    Unclear(Vec<SiteName>),
}

/// Finds the resource that a request addresses. What is here is found without asking anyone else.
pub(super) async fn find(job: &Job, sites: &[SiteName]) -> Found {
    let profile = &job.core.world.profile;
    let item = profile
        .address(&job.service.name, job.head.uri.path())
        .and_then(|address| {
            let key = address.key.as_deref()?;
            Some(address.rules().item_path(key))
        });
    match item {
        Some(path) => find_at(job, &path, sites).await,
        None => Found::Nowhere,
    }
}

/// Finds what stands at a path.
pub(super) async fn find_at(job: &Job, path: &str, sites: &[SiteName]) -> Found {
    let (mut missing, mut closed) = (Vec::new(), None);
    let (near, far): (Vec<_>, Vec<_>) = sites.iter().partition(|site| *site == job.here());
    for sites in [near, far] {
        let mut asked: FuturesUnordered<_> = sites.into_iter().map(|site| is_at(job, path, site)).collect();
        while let Some((site, answer)) = asked.next().await {
            match answer {
                Seen::There => return Found::At(site.clone()),
                Seen::Not => {}
                Seen::Closed => closed = closed.or(Some(site.clone())),
                Seen::Nothing => missing.push(site.clone()),
            }
        }
    }
    // Whoever may not see it learns from the application what it may.
    if let Some(site) = closed {
        Found::At(site)
    } else if missing.is_empty() {
        Found::Nowhere
    } else {
        missing.sort();
        Found::Unclear(missing)
    }
}

/// What one site says about what stands at a path.
enum Seen {
    There,
    Not,
    /// It does not say so to this caller.
    Closed,
    Nothing,
}

/// Whether a site has what stands at a path.
async fn is_at<'s>(job: &Job, path: &str, site: &'s SiteName) -> (&'s SiteName, Seen) {
    if site != job.here() && job.core.shared.distances.load().health(site) == Health::Down {
        return (site, Seen::Nothing);
    }
    let mut head = head::copy(&job.head);
    for name in ABOUT_WRITE {
        head.headers.remove(name);
    }
    head.headers
        .insert(ACCEPT, HeaderValue::from_static("application/json"));
    head.method = Method::GET;
    let Ok(uri) = Uri::try_from(path) else {
        return (site, Seen::Not);
    };
    head.uri = uri;
    let attempt = job.attempt(site, head, Body::Empty).await;
    let seen = match (&attempt.answer, attempt.visit.outcome) {
        (Answer::Response(response), Outcome::Executed) => match response.status().as_u16() {
            200..=399 => Seen::There,
            404 | 410 => Seen::Not,
            401 | 403 => Seen::Closed,
            _ => Seen::Nothing,
        },
        _ => Seen::Nothing,
    };
    (site, seen)
}

pub(super) fn unclear(missing: &[SiteName]) -> Problem {
    let names: Vec<String> = missing.iter().map(|site| format!("`{site}`")).collect();
    let detail = format!(
        "no site that answers has the resource, and {} cannot be asked: it may be there; try again later, or name the site in the scope; nothing executed",
        names.join(", ")
    );
    Problem::new(Code::OwnerUnknown, detail)
}

/// Executes a request where its resource is. Where nobody has it: at `place` if it can be made, else here, so that the
/// application says so.
pub(crate) async fn change(job: &mut Job, sites: &[SiteName], place: Option<&Place>, body: Body) -> Done {
    let owner = match find(job, sites).await {
        Found::At(site) => site,
        Found::Nowhere => match place {
            Some(place) => return create::create(job, place, body).await,
            None => job.here().clone(),
        },
        Found::Unclear(missing) => return Done::refused(job.here(), unclear(&missing)),
    };
    let is_delete = job.head.method == Method::DELETE;
    let body = match in_own_words(job, &owner, body).await {
        Ok(body) => body,
        Err(problem) => return Done::refused(job.here(), problem),
    };
    let done = run::planned(job, &Plan::at(owner.clone(), job.here()), body).await;
    if is_delete && is_success(&done) {
        create::release(job, &owner);
    }
    done
}

/// The body of a change with the owner's own version in it, where its caller has watched several sites and says from
/// which version it comes.
async fn in_own_words(job: &mut Job, owner: &SiteName, body: Body) -> Result<Body, Problem> {
    let profile = &job.core.world.profile;
    let list = profile
        .address(&job.service.name, job.head.uri.path())
        .map(|address| {
            let rules = address.rules();
            rules.is_watched()
        });
    // Only who watches a container's sites at once has a version of all of them.
    let is_contained = job
        .concern
        .as_ref()
        .is_some_and(|concern| concern.container.is_some());
    if list != Some(true) || !is_contained || body.is_end_stream() || !is_json(&job.head.headers) {
        return Ok(body);
    }
    let bytes = body::json(job, body).await?;
    match cheops_glue::with_version_of(&bytes, owner) {
        Some(own) => {
            job.head
                .headers
                .insert(CONTENT_LENGTH, HeaderValue::from(own.len()));
            Ok(Body::full(own))
        }
        None => Ok(Body::full(bytes)),
    }
}

pub(super) fn is_success(done: &Done) -> bool {
    matches!(&done.answer, Answer::Response(response) if response.status().is_success())
}

/// A body that is here as a whole, once more.
pub(super) async fn again(job: &Job, plan: &Plan, body: Bytes) -> Done {
    let replay = Replay::new(Body::full(body), job.core.limits().replay_body_max_bytes);
    run::run(job, plan, &replay).await
}
