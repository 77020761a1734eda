//! One question to several sites: a merged list, or the first that has the resource.

mod accept;
mod lines;
mod list;
mod merging;
mod one;
mod page;
mod watch;

use bytes::Bytes;
use cheops_net::Replay;
use cheops_types::{Code, Health, Limit, Outcome, Problem, SiteName, VerbClass, Visit};
use http::HeaderMap;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::{attempt::Answer, done::Done, job::Job};
use list::list;
use one::first_that_has_it;

pub(crate) async fn gather(job: &Job, sites: &[SiteName], replay: &Replay) -> Done {
    let (profile, uri) = (&job.core.world.profile, &job.head.uri);
    let watched = job.list.as_ref().filter(|shape| shape.watch.is_some());
    if let Some(shape) = watched.filter(|_| profile.is_stream(&job.service.name, uri.path(), uri.query())) {
        return watch::watch(job, shape, sites).await;
    }
    let body = match whole_body(job, replay).await {
        Ok(body) => body,
        Err(problem) => return Done::problem(problem),
    };
    match &job.list {
        Some(shape) => list(job, shape, sites, &body).await,
        None => first_that_has_it(job, sites, &body).await,
    }
}

/// Reads rarely have a body; one that has goes to all sites, so it must be here first.
async fn whole_body(job: &Job, replay: &Replay) -> Result<Bytes, Problem> {
    if replay.is_empty() {
        return Ok(Bytes::new());
    }
    let max = job.core.limits().replay_body_max_bytes;
    let too_long = || {
        Limit::ReplayBody.hit();
        Problem::new(
            Code::BodyTooLarge,
            format!("a request to several sites may have a body of {max} bytes at most"),
        )
    };
    let body = replay.body().ok_or_else(too_long)?;
    let timeout_ms = job.core.limits().upstream_timeout_ms;
    let collected = job
        .core
        .clock
        .timeout(timeout_ms, Limited::new(body, max).collect())
        .await;
    let Ok(collected) = collected else {
        let detail = format!("the request's body did not arrive within {timeout_ms} ms");
        return Err(Problem::new(Code::BadRequest, detail));
    };
    match collected {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_long()),
        Err(error) => Err(Problem::new(
            Code::BadRequest,
            format!("the request's body broke off: {error}"),
        )),
    }
}

fn is_down(job: &Job, site: &SiteName) -> bool {
    site != job.here() && job.core.shared.distances.load().health(site) == Health::Down
}

const HAS_IT: u8 = 0;

/// Which answer speaks for all: one that has the resource, then an application's word, then ours.
fn rank(visit: &Visit, answer: &Answer) -> u8 {
    match answer {
        Answer::Response(response) if visit.outcome == Outcome::Executed => {
            if response.status().is_success() || response.status().is_redirection() {
                HAS_IT
            } else {
                1
            }
        }
        Answer::Response(_) => 2,
        Answer::Problem(_) => 3,
    }
}

fn nobody() -> Answer {
    Answer::Problem(Problem::new(
        Code::NoSiteLeft,
        "none of the scope's sites answers heartbeats; nothing executed",
    ))
}

/// One site's answer for all. It is the whole truth if it has the one resource that was asked for, or
/// if nobody is missing who might know more.
fn one_for_all(job: &Job, answer: Option<Answer>, visits: Vec<Visit>, workflow: Vec<Visit>) -> Done {
    let answer = answer.unwrap_or_else(nobody);
    let found = matches!(&answer, Answer::Response(response) if response.status().is_success());
    let all_answered = visits.iter().all(|visit| visit.outcome == Outcome::Executed);
    let complete = all_answered || (found && job.verb == VerbClass::ReadOne);
    if !complete && found && wants_whole(&job.head.headers) {
        let missing = visits.iter().filter(|visit| visit.outcome != Outcome::Executed);
        let problem = incomplete(missing.map(|visit| &visit.site));
        return Done {
            visits,
            workflow,
            complete,
            ..Done::problem(problem)
        };
    }
    Done {
        answer,
        visits,
        workflow,
        complete,
    }
}

/// `Prefer: handling=strict`: a partial list is worse than none.
fn wants_whole(headers: &HeaderMap) -> bool {
    let values = headers
        .get_all("prefer")
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split([',', ';']))
        .any(|preference| {
            let preference: String = preference
                .chars()
                .filter(|c| !c.is_whitespace() && *c != '"')
                .collect();
            preference.eq_ignore_ascii_case("handling=strict")
        })
}

fn incomplete<'a>(missing: impl Iterator<Item = &'a SiteName>) -> Problem {
    let missing: Vec<String> = missing.map(|site| format!("`{site}`")).collect();
    let missing = missing.join(", ");
    Problem::new(
        Code::IncompleteList,
        format!("no part of the list from {missing}; drop `Prefer: handling=strict` to get the others"),
    )
}
