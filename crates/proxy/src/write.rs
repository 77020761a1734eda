//! A write that this site accepts for a replica set, and what its caller is told.

use std::sync::Arc;

use bytes::Bytes;
use cheops_net::{Body, Replay};
use cheops_plan::{Known, Plan, Remainder, Target, nearest_first};
use cheops_ports::{Elsewhere, Prefer, Reply, Told, Write};
use cheops_types::{KeptBody, Limits, Outcome, PlanKind, Problem, SiteName, Visit, headers};
use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, LOCATION},
};

use crate::{
    Counted, WorldView, answer,
    attempt::{self, Answer},
    body,
    done::Done,
    head,
    job::{Job, Party},
    operation, prefer, remainder, run,
};

/// Hands a write to replication. A request that turns out to change nothing is for this site's service alone.
pub(crate) async fn accept(job: &mut Job, target: Target, kind: PlanKind, body: Body) -> (PlanKind, Done) {
    let body = match body::take(job, body, body::need(job)).await {
        Ok(body) => body,
        Err(problem) => return (kind, Done::refused(job.here(), problem)),
    };
    if let Some(body) = without_effect(job, &body) {
        let done = run::planned(job, &Plan::Local, Body::full(body)).await;
        return (PlanKind::Local, done);
    }
    (kind, write(job, target, body).await)
}

async fn write(job: &mut Job, target: Target, body: KeptBody) -> Done {
    let coordinator = match job.core.replication() {
        Ok(coordinator) => Arc::clone(coordinator),
        Err(problem) => return Done::refused(job.here(), problem),
    };
    job.core.counters.add(Counted::Replicated);
    let body = in_own_words(job, body);
    // As it was before the write, which may delete it.
    let known = job.concern.as_mut().and_then(|concern| concern.known.take());
    let path = attempt::local_path(job);
    let prefer = prefer::read(&job.head.headers);
    let reply = coordinator
        .write(as_write(job, target.clone(), body.clone(), prefer))
        .await;
    match reply {
        Reply::Answered { response, told } => {
            let mut response = response.map(Body::full);
            // What was read is whole, whatever it was sent as.
            head::clean_response(response.headers_mut());
            response.headers_mut().remove(CONTENT_LENGTH);
            answered(job, known.as_ref(), &path, response, prefer, told).await
        }
        Reply::Elsewhere(elsewhere) => {
            let remainder = match &target {
                Target::Set { .. } => {
                    Remainder::accept_known(known.map(|known| known.sites).unwrap_or_default())
                }
                target => Remainder::accept(target),
            };
            let remainder = if job.is_reserved {
                remainder.named()
            } else {
                remainder
            };
            take_over(job, &remainder, elsewhere, body).await
        }
        Reply::Failed {
            problem,
            outcome,
            told,
        } => failed(job, &problem, outcome, told),
    }
}

/// Makes a resource of several sites, here or at one of them.
pub(crate) async fn make(job: &mut Job, target: Target, body: Bytes) -> Done {
    job.is_reserved = true;
    if target.sites().contains(job.here()) {
        return write(job, target, KeptBody::Inline(body)).await;
    }
    let remainder = Remainder::accept(&target).named();
    let to = nearest(job, target.sites().to_vec());
    hand_over(job, &remainder, to, Body::full(body)).await
}

/// Another site accepts the write: the first of these, and the next one only if it certainly did not.
pub(crate) async fn hand_over(job: &mut Job, remainder: &Remainder, to: Vec<SiteName>, body: Body) -> Done {
    remainder::put(&mut job.head, remainder);
    let plan = Plan::Fallback(to.into_iter().map(Plan::Forward).collect());
    let replay = Replay::new(body, job.core.limits().replay_body_max_bytes);
    run::run(job, &plan, &replay).await
}

fn nearest(job: &Job, mut sites: Vec<SiteName>) -> Vec<SiteName> {
    let core = &job.core;
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    nearest_first(&mut sites, &view);
    sites
}

/// A body with this site's own version in it, where its caller has watched several sites.
fn in_own_words(job: &Job, body: KeptBody) -> KeptBody {
    match &body {
        KeptBody::Inline(bytes) => match cheops_glue::with_version_of(bytes, job.here()) {
            Some(own) => KeptBody::Inline(own.into()),
            None => body,
        },
        KeptBody::Spooled { .. } => body,
    }
}

/// The body of a request that changes nothing, as it says itself.
fn without_effect(job: &Job, body: &KeptBody) -> Option<Bytes> {
    // Other bodies are documents: the application takes such a member of theirs for data.
    if job.head.method != http::Method::DELETE {
        return None;
    }
    let KeptBody::Inline(body) = body else {
        return None;
    };
    let kind = job.concern.as_ref()?.kind.as_deref()?;
    let rules = job.core.world.profile.kind(&job.service.name, kind);
    rules.is_effect_free_body(body).then(|| body.clone())
}

fn as_write(job: &Job, target: Target, body: KeptBody, prefer: Prefer) -> Write {
    let mut head = head::copy(&job.head);
    head.headers.remove(headers::SCOPE);
    head.headers.remove(CONTENT_LENGTH);
    // The answer is read for the id of what was made, and rewritten.
    attempt::ask_for_readable(&mut head.headers);
    let kind = job.concern.as_ref().and_then(|concern| concern.kind.clone());
    Write {
        service: job.service.name.clone(),
        kind: kind.unwrap_or_default(),
        target,
        request: Request::from_parts(head, body),
        scope: job.scope_text().to_owned(),
        prefer,
        from: job.peer.clone(),
    }
}

async fn answered(
    job: &Job,
    known: Option<&Known>,
    path: &str,
    mut response: Response<Body>,
    prefer: Prefer,
    told: Told,
) -> Done {
    let Limits {
        prefer_wait_max_s, ..
    } = job.core.limits();
    let honoured = Prefer {
        // Where sites decide together, the answer comes when they have.
        respond_async: prefer.respond_async && response.status() == StatusCode::ACCEPTED,
        ..prefer
    };
    prefer::tell(response.headers_mut(), &honoured, *prefer_wait_max_s, &told);
    if let Some(id) = told.operation.as_deref().filter(|_| prefer.respond_async)
        && response.status() == StatusCode::ACCEPTED
        && let Ok(place) = HeaderValue::try_from(operation::location(id))
    {
        response.headers_mut().insert(LOCATION, place);
    }
    let kind = job.concern.as_ref().and_then(|concern| concern.kind.as_deref());
    let answer = match attempt::show(job, path, response, kind.zip(known)).await {
        Ok(response) => response,
        Err(problem) => self::problem(job, &problem),
    };
    tell(answer, told)
}

/// Nothing executed here: the nearest other site of the set takes the write.
async fn take_over(job: &mut Job, remainder: &Remainder, elsewhere: Elsewhere, body: KeptBody) -> Done {
    let Elsewhere { mut sites, problem } = elsewhere;
    let here = Visit::failed(job.here(), Outcome::NotExecuted, problem.code.as_str());
    sites.retain(|site| site != job.here());
    // Another agent asks the next one by itself.
    if sites.is_empty() || job.caller == Party::Peer {
        return Done::refused(job.here(), problem);
    }
    let body = match job
        .core
        .replication()
        .and_then(|coordinator| coordinator.again(body))
    {
        Ok(body) => body,
        Err(lost) => {
            tracing::warn!(detail = %lost.detail, "a write cannot be handed over: its body is gone");
            return Done::refused(job.here(), problem);
        }
    };
    let to = nearest(job, sites);
    let mut done = hand_over(job, remainder, to, body).await;
    if done.certainly_not_executed() {
        done.answer = Answer::Problem(problem);
    }
    done.visits.insert(0, here);
    done
}

fn failed(job: &Job, problem: &Problem, outcome: Outcome, told: Option<Told>) -> Done {
    let Some(told) = told else {
        let visit = Visit::failed(job.here(), outcome, problem.code.as_str());
        return Done {
            visits: vec![visit],
            ..Done::problem(problem.clone())
        };
    };
    tell(self::problem(job, problem), told)
}

fn problem(job: &Job, problem: &Problem) -> Response<Body> {
    job.core.counters.add(Counted::Problems);
    answer::problem(problem)
}

/// What replication told travels with the answer; the receipt is made of it.
fn tell(mut response: Response<Body>, told: Told) -> Done {
    let (visits, complete) = (told.sites.clone(), told.complete);
    response.extensions_mut().insert(told);
    Done {
        answer: Answer::Response(response),
        visits,
        workflow: Vec::new(),
        complete,
    }
}
