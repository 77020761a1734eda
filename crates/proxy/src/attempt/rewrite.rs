//! One request at one site, with ids as that site knows them and an answer with ids as the caller knows them.

use std::borrow::Cow;

use bytes::Bytes;
use cheops_glue::{Effect, Own, Profile};
use cheops_net::Body;
use cheops_plan::{Known, unavailable};
use cheops_types::{Code, Outcome, Problem, SiteName, VerbClass};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri,
    header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, LINK, LOCATION},
    request,
};
use http_body::Body as _;

use super::{
    Answer, Attempt,
    ids::{To, Translation},
    shown::{Showing, Shown, answered},
    stream::{self, Read},
};
use crate::{
    Shared, World,
    body::{self, is_identity, is_json},
    job::{AnswerIds, Job},
    memory::kept,
};

/// Headers that are a function of the bytes of a body.
const ABOUT_BYTES: [HeaderName; 4] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
];

/// Sends a request to one site and makes its answer the caller's.
pub(super) async fn attempt(job: &Job, site: &SiteName, mut head: request::Parts, body: Body) -> Attempt {
    let body = match request(job, site, &mut head, body).await {
        Ok(body) => body,
        Err(problem) => return Attempt::failed(site, Outcome::NotExecuted, problem),
    };
    if site != job.here() {
        // The other agent shows ids by itself.
        return job.attempt_as_is(site, head, body).await;
    }
    if shows_ids(job) {
        ask_for_readable(&mut head.headers);
    }
    let path = head.uri.path().to_owned();
    let mut attempt = job.attempt_as_is(site, head, body).await;
    if let Answer::Response(response) = attempt.answer {
        let status = response.status().as_u16();
        attempt.answer = match show(job, &path, response, None).await {
            Ok(response) => Answer::Response(response),
            Err(problem) => {
                attempt.visit.error = Some(problem.code.as_str().to_owned());
                attempt.visit.status = Some(status);
                Answer::Problem(problem)
            }
        };
    }
    attempt
}

/// Makes an application answer so that ids can be found in it.
pub(crate) fn ask_for_readable(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Puts a site's own ids in a request's path, query and body.
async fn request(job: &Job, site: &SiteName, head: &mut request::Parts, body: Body) -> Result<Body, Problem> {
    let callers_path = head.uri.path().to_owned();
    map_head(job, site, head)?;
    let Some(concern) = &job.concern else {
        return Ok(body);
    };
    if !concern.has_references || body.is_end_stream() || head.method.is_safe() {
        return Ok(body);
    }
    let profile = &job.core.world.profile;
    let Some(address) = profile.address(&job.service.name, &callers_path) else {
        return Ok(body);
    };
    if !address.rules().reads_request_body(&concern.effect) {
        return Ok(body);
    }
    if job.core.shared.replication().is_none() {
        return Ok(body);
    }
    let bytes = body::json(job, body).await?;
    let own = if job.verb == VerbClass::Create {
        Own::Keep
    } else {
        address.own_for(head.method.as_str())
    };
    let (world, shared) = (job.core.world.clone(), job.core.shared.clone());
    let (service, to) = (job.service.name.clone(), direction(job, site));
    let body_bytes = bytes.len();
    let map = move || map_request(&world, &shared, &service, &callers_path, own, to, bytes);
    let mapped = body::work(job, body_bytes, map).await?;
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(mapped.len()));
    Ok(Body::full(mapped))
}

/// The body of a request to this path, with other ids in it.
fn map_request(
    world: &World,
    shared: &Shared,
    service: &str,
    path: &str,
    own: Own<'static>,
    to: To,
    bytes: Bytes,
) -> Result<Bytes, Problem> {
    let address = world.profile.address(service, path);
    let ids = Translation::new(shared, &world.limits, to);
    let (Some(address), Some(ids)) = (address, ids) else {
        return Ok(bytes);
    };
    let mapped = address.map_body(&bytes, own, &ids).map_err(|error| {
        let detail = format!("the request's body is not JSON ({error}); nothing executed");
        Problem::new(Code::BodyUnsupported, detail)
    })?;
    let mapped = match mapped {
        Cow::Borrowed(_) => None,
        Cow::Owned(mapped) => Some(Bytes::from(mapped)),
    };
    check(&world.site, &ids)?;
    Ok(mapped.unwrap_or(bytes))
}

/// Puts a site's own ids in a request's path and query.
pub(crate) fn map_head(job: &Job, site: &SiteName, head: &mut request::Parts) -> Result<(), Problem> {
    let (Some(_), Some(target)) = (&job.concern, head.uri.path_and_query()) else {
        return Ok(());
    };
    let Some(ids) = Translation::new(&job.core.shared, job.core.limits(), direction(job, site)) else {
        return Ok(());
    };
    let mapped = job
        .core
        .world
        .profile
        .map_path(&job.service.name, target.as_str(), Own::Map, &ids);
    check(job.here(), &ids)?;
    if mapped != target.as_str() {
        head.uri = Uri::try_from(mapped)
            .map_err(|_| Problem::new(Code::Internal, "a path with a replica's id is no path"))?;
    }
    Ok(())
}

fn shows_ids(job: &Job) -> bool {
    job.answer_ids != AnswerIds::Local
}

fn direction(job: &Job, site: &SiteName) -> To {
    if site == job.here() { To::Local } else { To::Shown }
}

fn check(here: &SiteName, ids: &Translation<'_>) -> Result<(), Problem> {
    if ids.check()? {
        return Err(unavailable(here));
    }
    Ok(())
}

/// Makes a service's answer one for the caller. `path` is the one that the service got; `own` is the set
/// that the request was about, with its kind, as it was before.
pub(crate) async fn show(
    job: &Job,
    path: &str,
    mut response: Response<Body>,
    own: Option<(&str, &Known)>,
) -> Result<Response<Body>, Problem> {
    let (core, limits) = (&job.core, job.core.limits());
    let Some(mut ids) = Translation::new(&core.shared, limits, To::Shown).filter(|_| shows_ids(job)) else {
        return Ok(response);
    };
    if let Some((kind, known)) = own {
        ids = ids.with(kind, known);
    }
    let profile = &core.world.profile;
    show_urls(profile, &job.service.name, response.headers_mut(), &ids);
    ids.check()?;
    let acted = acted(job, &response);
    if is_left_alone(job, path, acted) {
        return Ok(response);
    }
    if job.head.method == Method::HEAD {
        // It says how long the body would be, which is not known.
        if is_json(response.headers()) {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        return Ok(response);
    }
    if answered(profile, &job.service.name, path, acted).is_none() || !is_readable(&response) {
        return Ok(response);
    }
    let showing = Showing::new(job, path, acted, own);
    let (mut head, body) = response.into_parts();
    let read = if head.headers.contains_key(CONTENT_LENGTH) || body.size_hint().exact().is_some() {
        let collected = core.collect(body).await;
        collected.map(|(bytes, held)| Read::Whole(bytes, held))
    } else {
        stream::read(core, body).await
    };
    let read = read.map_err(|code| unreadable(job, code))?;
    let (bytes, held) = match read {
        Read::Whole(bytes, held) => (bytes, held),
        // Whoever watches wants each event as it comes.
        Read::Stream(body) => return Ok(Response::from_parts(head, body)),
    };
    let body_bytes = bytes.len();
    let show = move || showing.run(bytes, held);
    let shown = core.work(body_bytes, show).await;
    let Shown {
        body,
        is_changed,
        places,
        held,
    } = shown.map_err(|code| unreadable(job, code))??;
    if let Some(places) = places {
        head.extensions.insert(places);
    }
    if is_changed {
        for name in ABOUT_BYTES {
            head.headers.remove(name);
        }
    }
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    Ok(Response::from_parts(head, kept(body, held)))
}

fn unreadable(job: &Job, code: Code) -> Problem {
    let detail = format!(
        "the answer of service `{}` cannot be read: {}",
        job.service.name,
        code.title()
    );
    Problem::new(code, detail).at(job.here()).of(&job.service.name)
}

/// Whether a body passes as it comes: it has no end, or nothing in it is another site's word for something here.
fn is_left_alone(job: &Job, path: &str, acted: Option<&str>) -> bool {
    let (profile, query) = (&job.core.world.profile, job.head.uri.query());
    if profile.is_stream(&job.service.name, path, query) {
        return true;
    }
    let is_merged = job.answer_ids == AnswerIds::Told && job.list.is_some();
    let address = answered(profile, &job.service.name, path, acted);
    !is_merged && address.is_some_and(|address| !address.rules().exchanges_ids())
}

/// The kind that an answer is about where it is not what the path says: that of an action is about the resource that
/// acted, unless it made something.
fn acted<'j>(job: &'j Job, response: &Response<Body>) -> Option<&'j str> {
    let concern = job.concern.as_ref()?;
    let is_action = matches!(concern.effect, Effect::Action { .. } | Effect::Difference { .. })
        && response.status() != StatusCode::CREATED
        && !response.headers().contains_key(LOCATION);
    concern.kind.as_deref().filter(|_| is_action)
}

/// Whether an answer has all of a resource or of a list, as text.
fn is_readable(response: &Response<Body>) -> bool {
    response.status().is_success()
        && response.status() != StatusCode::PARTIAL_CONTENT
        && !response.body().is_end_stream()
        && is_json(response.headers())
        && is_identity(response.headers())
}

/// Shows ids in the headers that hold URLs of the application.
fn show_urls(profile: &Profile, service: &str, headers: &mut HeaderMap, ids: &Translation<'_>) {
    for name in [LOCATION, CONTENT_LOCATION] {
        if let Some(value) = headers.get_mut(name)
            && let Some(shown) = value
                .to_str()
                .ok()
                .and_then(|url| profile.map_url(service, url, ids))
            && let Ok(shown) = HeaderValue::try_from(shown)
        {
            *value = shown;
        }
    }
    for (name, value) in headers.iter_mut() {
        if name == LINK
            && let Some(shown) = value
                .to_str()
                .ok()
                .map(|links| show_links(profile, service, links, ids))
            && let Ok(shown) = HeaderValue::try_from(shown)
        {
            *value = shown;
        }
    }
}

/// Shows ids in `<…>; rel=next, <…>; rel=prev`.
fn show_links(profile: &Profile, service: &str, links: &str, ids: &Translation<'_>) -> String {
    let mut shown = String::with_capacity(links.len());
    let mut rest = links;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((url, after)) = after.split_once('>') else {
            break;
        };
        let url = profile
            .map_url(service, url, ids)
            .map_or(Cow::Borrowed(url), Cow::Owned);
        shown.extend([before, "<", &url, ">"]);
        rest = after;
    }
    shown + rest
}

/// The path that this site's service got for a write.
pub(crate) fn local_path(job: &Job) -> String {
    let mut head = crate::head::copy(&job.head);
    // Where a replica is missing, the caller's own path does: there is nothing of it in the answer.
    let _ = map_head(job, job.here(), &mut head);
    head.uri.path().to_owned()
}
