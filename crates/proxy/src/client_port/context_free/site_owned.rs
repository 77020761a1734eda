//! Another site's answer with what is this site's own: where its services are, say.

use bytes::Bytes;
use cheops_glue::{ContextFree, NotJson};
use cheops_net::{Body, Replay};
use cheops_plan::Plan;
use cheops_types::{Code, Outcome, Problem, Visit};
use http::{
    HeaderValue, Method, Response,
    header::{CONTENT_LENGTH, ETAG},
};

use crate::{
    attempt::{Answer, Attempt},
    discovery::Origin,
    done::Done,
    head,
    job::Job,
    memory::{Lease, kept},
    run,
};

/// Executes a plan. What another site answered gets this site's own part, which this site's service tells
/// in its answer to the same request, or told in the last one.
pub(super) async fn answered(job: &Job, plan: &Plan, body: Body, rule: &ContextFree) -> Done {
    let replay = Replay::new(body, job.core.limits().replay_body_max_bytes);
    let mut done = run::run(job, plan, &replay).await;
    let is_ours = done
        .visits
        .iter()
        .any(|visit| visit.outcome == Outcome::Executed && visit.site == *job.here());
    if is_ours || job.head.method == Method::HEAD {
        return done;
    }
    done.answer = match done.answer {
        Answer::Response(response) if response.status().is_success() => {
            match with_own_part(job, rule, response, &replay, &mut done.workflow).await {
                Ok(response) => Answer::Response(response),
                Err(problem) => Answer::Problem(problem),
            }
        }
        other => other,
    };
    done
}

async fn with_own_part(
    job: &Job,
    rule: &ContextFree,
    response: Response<Body>,
    replay: &Replay,
    told: &mut Vec<Visit>,
) -> Result<Response<Body>, Problem> {
    let unreadable = |why: String| Problem::new(Code::BodyUnreadable, why).of(&job.service.name);
    let (mut head, body) = response.into_parts();
    let unread = |code: Code| {
        unreadable(format!(
            "the answer could not be read, and a part of it is each site's own: {code}"
        ))
    };
    let (theirs, held) = read(job, body).await.map_err(unread)?;
    let their_part = own_part_of(job, rule, &theirs).await.map_err(unread)?;
    let their_part = their_part.map_err(|error| unreadable(error.to_string()))?;
    if their_part.is_none() {
        return Ok(Response::from_parts(head, kept(theirs, held)));
    }
    let own = own_part(job, rule, replay, told)
        .await
        .ok_or_else(|| missing(job))?;
    let (by, body_bytes) = (rule.clone(), theirs.len() + own.len());
    let put = move || (by.with_own_part(&theirs, &own), held);
    let (whole, mut held) = job.core.work(body_bytes, put).await.map_err(unread)?;
    let whole = whole.map_err(|error| unreadable(error.to_string()))?;
    held.resize(whole.len(), job.core.limits()).map_err(unread)?;
    head.headers.remove(ETAG);
    head.headers
        .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    Ok(Response::from_parts(head, kept(whole.into(), held)))
}

/// What this site's service says of itself, or said last.
async fn own_part(job: &Job, rule: &ContextFree, replay: &Replay, told: &mut Vec<Visit>) -> Option<String> {
    let (discovery, service) = (&job.core.shared.discovery, &job.service.name);
    let Attempt { visit, answer, .. } =
        Box::pin(job.attempt_here(&mut head::copy(&job.head), replay.body()?)).await;
    told.push(Visit {
        service: Some(service.clone()),
        ..visit
    });
    let own = match answer {
        Answer::Response(response) if response.status().is_success() => {
            match read(job, response.into_body()).await {
                Ok((ours, _held)) => own_part_of(job, rule, &ours).await.ok().and_then(|own| own.ok()?),
                Err(_) => None,
            }
        }
        _ => None,
    };
    let origin = Origin::of(&job.head);
    match own {
        Some(own) => {
            discovery.keep_own(service, origin, &own, job.core.limits());
            Some(own)
        }
        None => discovery.recall_own(service, origin),
    }
}

async fn read(job: &Job, body: Body) -> Result<(Bytes, Lease), Code> {
    job.core.collect(body).await
}

/// What of an answer is its site's own.
async fn own_part_of(
    job: &Job,
    rule: &ContextFree,
    answer: &Bytes,
) -> Result<Result<Option<String>, NotJson>, Code> {
    let (rule, answer) = (rule.clone(), answer.clone());
    job.core.work(answer.len(), move || rule.own_part(&answer)).await
}

fn missing(job: &Job) -> Problem {
    let (service, here) = (&job.service.name, job.here());
    Problem::new(
        Code::UpstreamUnreachable,
        format!(
            "another site answered, but a part of the answer is each site's own, and service `{service}` of site `{here}` does not tell it: it is down, or does not know the caller"
        ),
    )
    .at(here)
    .of(service)
}
