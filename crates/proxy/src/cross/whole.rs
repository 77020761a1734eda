//! A divided resource, read as a whole.

use bytes::Bytes;
use cheops_net::Body;
use cheops_plan::Known;
use cheops_types::{Code, Health, Outcome, Problem, SiteName};
use futures_util::future::join_all;
use http::{
    HeaderMap, HeaderValue, Response,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, ETAG},
};

use crate::{
    attempt::{Answer, Attempt, down_visit},
    body::is_json,
    done::Done,
    head,
    job::Job,
    memory::{Lease, kept},
};

/// One site's part of the resource, where it has shown it.
type Part = Option<(Bytes, Lease)>;

/// Asks all sites for their parts and makes one document of them: the nearest one's, with what is divided as a whole and
/// with sums where the glue says so.
pub(crate) async fn read(job: &Job, sites: &[SiteName]) -> Done {
    let concern = job.concern.as_ref();
    let Some((kind, known)) =
        concern.and_then(|concern| Some((concern.kind.as_deref()?, concern.known.as_ref()?)))
    else {
        return Done::problem(nobody());
    };
    let asked = join_all(sites.iter().map(|site| ask(job, site))).await;
    let (mut visits, mut workflow, mut answers, mut parts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (attempt, part) in asked {
        visits.push(attempt.visit);
        workflow.extend(attempt.workflow);
        answers.push(attempt.answer);
        parts.push(part);
    }
    let complete = parts.iter().all(Option::is_some);
    // This site comes first.
    let Some(first) = parts.iter().position(Option::is_some) else {
        let is_answer = |answer: &Answer| matches!(answer, Answer::Response(_));
        let best = answers.iter().position(is_answer).unwrap_or(0);
        let answer = (!answers.is_empty()).then(|| answers.swap_remove(best));
        return Done {
            answer: answer.unwrap_or_else(|| Answer::Problem(nobody())),
            visits,
            workflow,
            complete,
        };
    };
    let Answer::Response(mut response) = answers.swap_remove(first) else {
        return Done::problem(nobody());
    };
    match whole(job, kind, known, parts.into_iter().flatten().collect()).await {
        Ok((whole, held)) => {
            response
                .headers_mut()
                .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
            response.headers_mut().remove(ETAG);
            *response.body_mut() = kept(whole, held);
        }
        Err(problem) => {
            return Done {
                visits,
                workflow,
                ..Done::problem(problem)
            };
        }
    }
    Done {
        answer: Answer::Response(response),
        visits,
        workflow,
        complete,
    }
}

/// One document of all parts.
async fn whole(
    job: &Job,
    kind: &str,
    known: &Known,
    parts: Vec<(Bytes, Lease)>,
) -> Result<(Bytes, Lease), Problem> {
    let body_bytes = parts.iter().map(|(body, _)| body.len()).sum();
    let (world, shares) = (job.core.world.clone(), known.shares.clone());
    let (service, kind) = (job.service.name.clone(), kind.to_owned());
    let mut held = Lease::none(&job.core.shared.memory);
    let work = move || {
        let documents: Vec<&[u8]> = parts.iter().map(|(body, _)| &body[..]).collect();
        let wholes = shares.iter().map(|share| (share.pointer.as_str(), share.total()));
        let whole = world.profile.kind(&service, &kind).whole(&documents, wholes);
        let whole = whole.map_err(|error| {
            let detail = format!("the parts of the resource cannot be read: {error}");
            Problem::new(Code::BodyUnreadable, detail)
        })?;
        held.grow(whole.len(), &world.limits).map_err(busy)?;
        Ok((Bytes::from(whole), held))
    };
    job.core.work(body_bytes, work).await.map_err(busy)?
}

fn busy(code: Code) -> Problem {
    Problem::new(code, "too many long bodies are being read: ask again")
}

async fn ask(job: &Job, site: &SiteName) -> (Attempt, Part) {
    if site != job.here() && job.core.shared.distances.load().health(site) == Health::Down {
        let detail = format!("site `{site}` does not answer heartbeats");
        let attempt = Attempt {
            visit: down_visit(site),
            workflow: Vec::new(),
            answer: Answer::Problem(Problem::new(Code::PeerDown, detail).at(site)),
            is_broken: false,
        };
        return (attempt, None);
    }
    let mut head = head::copy(&job.head);
    head.headers
        .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if takes_json(&head.headers) {
        head.headers
            .insert(ACCEPT, HeaderValue::from_static("application/json"));
    }
    let mut attempt = job.attempt(site, head, Body::Empty).await;
    let response = match attempt.answer {
        Answer::Response(response) if is_part(&response) && attempt.visit.outcome == Outcome::Executed => {
            response
        }
        answer => {
            attempt.answer = answer;
            return (attempt, None);
        }
    };
    let (parts, body) = response.into_parts();
    let core = &job.core;
    match core.collect(body).await {
        Ok((bytes, held)) => {
            // The body is in the part.
            attempt.answer = Answer::Response(Response::from_parts(parts, Body::Empty));
            (attempt, Some((bytes, held)))
        }
        Err(code) => {
            let detail = format!("the answer of site `{site}` cannot be read: {}", code.title());
            attempt.visit.error = Some(code.as_str().to_owned());
            attempt.answer = Answer::Problem(Problem::new(code, detail).at(site));
            (attempt, None)
        }
    }
}

fn is_part(response: &Response<Body>) -> bool {
    response.status().as_u16() == 200 && is_json(response.headers())
}

/// Whether a caller that would like something else takes JSON too.
fn takes_json(headers: &HeaderMap) -> bool {
    let mut values = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    values.peek().is_none()
        || values.flat_map(|value| value.split(',')).any(|range| {
            let range = range.split(";q=").next().unwrap_or_default().trim();
            range == "*/*" || range == "application/*" || range == "application/json"
        })
}

fn nobody() -> Problem {
    Problem::new(
        Code::NoSiteLeft,
        "no site of the resource can be asked for its part",
    )
}
