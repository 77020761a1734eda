//! From a plan to an answer.

use std::{future::Future, pin::Pin};

use cheops_net::{Body, Replay};
use cheops_plan::{Plan, Told};
use cheops_types::{Code, Outcome, PlanKind, Problem, Receipt, SiteName, Visit};
use http::{Response, StatusCode};

use crate::{
    Counted, answer,
    attempt::{Answer, Attempt, Unused},
    gather, head,
    job::{Caller, Job},
    order,
    replicated::{self, Places},
};

/// The end of a plan or of one of its members.
pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) visits: Vec<Visit>,
    pub(crate) workflow: Vec<Visit>,
    /// False when a part of the answer is missing.
    pub(crate) complete: bool,
}

impl Done {
    pub(crate) fn problem(problem: Problem) -> Self {
        Self {
            answer: Answer::Problem(problem),
            visits: Vec::new(),
            workflow: Vec::new(),
            complete: true,
        }
    }

    /// A request that this site certainly did not execute.
    pub(crate) fn refused(here: &SiteName, problem: Problem) -> Self {
        Attempt::failed(here, Outcome::NotExecuted, problem).into()
    }

    /// Whether no site can have seen the request.
    pub(crate) fn certainly_not_executed(&self) -> bool {
        self.visits
            .iter()
            .all(|visit| visit.outcome == Outcome::NotExecuted)
    }

    /// Whether a read should be asked elsewhere.
    pub(crate) fn is_failed_read(&self) -> bool {
        let Answer::Response(response) = &self.answer else {
            return true;
        };
        let unavailable = [
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        unavailable.contains(&response.status())
            || self.visits.iter().all(|visit| visit.outcome != Outcome::Executed)
    }
}

impl From<Attempt> for Done {
    fn from(attempt: Attempt) -> Self {
        Self {
            answer: attempt.answer,
            visits: vec![attempt.visit],
            workflow: attempt.workflow,
            complete: true,
        }
    }
}

/// Executes a plan and makes the answer, receipt included.
pub(crate) async fn execute(job: Job, plan: &Plan, body: Body) -> Response<Body> {
    if job.concern.is_some() {
        return Box::pin(replicated::execute(job, plan, body)).await;
    }
    let done = planned(&job, plan, body).await;
    finish(&job, plan.kind(), done)
}

/// Executes a plan.
pub(crate) async fn planned(job: &Job, plan: &Plan, body: Body) -> Done {
    match plan {
        // One site: the body goes through as it comes.
        Plan::Local => once(job, job.here(), body).await,
        Plan::Forward(site) => once(job, site, body).await,
        _ => {
            let replay = Replay::new(body, job.core.limits().replay_body_max_bytes);
            run(job, plan, &replay).await
        }
    }
}

async fn once(job: &Job, site: &SiteName, body: Body) -> Done {
    job.attempt(site, head::copy(&job.head), body).await.into()
}

/// Executes a member of a plan; boxed, because plans nest.
pub(crate) fn run<'a>(
    job: &'a Job,
    plan: &'a Plan,
    replay: &'a Replay,
) -> Pin<Box<dyn Future<Output = Done> + 'a>> {
    Box::pin(async move {
        match plan {
            Plan::Local => at(job, job.here(), replay).await,
            Plan::Forward(site) => at(job, site, replay).await,
            Plan::FirstOf(members) if job.verb.is_read() && replay.is_empty() => {
                order::hedged(job, members, replay).await
            }
            Plan::Fallback(members) | Plan::FirstOf(members) => order::in_turn(job, members, replay).await,
            Plan::Gather(sites) => gather::gather(job, sites, replay).await,
            // Never a member: these are whole plans, and carried out as such.
            Plan::Accept(_) | Plan::HandOver { .. } | Plan::Owner(_) | Plan::Whole(_) | Plan::Make(_) => {
                let detail = format!("`{plan}` cannot be a part of another plan; nothing executed");
                Done::problem(Problem::new(Code::Internal, detail))
            }
        }
    })
}

async fn at(job: &Job, site: &SiteName, replay: &Replay) -> Done {
    if let Some(body) = replay.body() {
        return once(job, site, body).await;
    }
    let detail = "the body is longer than `replay_body_max_bytes` and was already sent to another site";
    Attempt::failed(
        site,
        Outcome::NotExecuted,
        Problem::new(Code::BodyTooLarge, detail),
    )
    .into()
}

/// What replication knows of all sites comes before what this request saw of some.
fn tell(receipt: &mut Receipt, told: Told) {
    let seen = std::mem::replace(&mut receipt.sites, told.sites);
    for visit in seen {
        if !receipt.sites.iter().any(|known| known.site == visit.site) {
            receipt.sites.push(visit);
        }
    }
    receipt.complete &= told.complete;
    receipt.operation = told.operation;
    receipt.set = Some(told.set.to_string());
    receipt.held = Some(told.held);
}

pub(crate) fn finish(job: &Job, plan: PlanKind, done: Done) -> Response<Body> {
    let Done {
        answer,
        visits,
        workflow,
        complete,
    } = done;
    let mut response = match answer {
        Answer::Response(response) => response,
        Answer::Problem(problem) => {
            job.core.counters.add(Counted::Problems);
            answer::problem(&problem)
        }
    };
    let workflow = job.close(&visits, workflow);
    let mut receipt = Receipt {
        complete,
        workflow,
        ..Receipt::new(plan, visits)
    };
    if let Some(told) = response.extensions_mut().remove::<Told>() {
        tell(&mut receipt, told);
    } else {
        let elsewhere = response.extensions_mut().remove::<Unused>();
        receipt.unused = elsewhere.map_or_else(|| job.unused(&receipt), |unused| unused.0);
    }
    if job.caller == Caller::Peer
        && let Some(places) = response.extensions_mut().remove::<Places>()
    {
        places.put(response.headers_mut());
    }
    tracing::debug!(
        service = %job.service.name,
        method = %job.head.method,
        path = job.head.uri.path(),
        scope = job.scope_text(),
        status = response.status().as_u16(),
        receipt = %receipt.to_header(),
        "scoped request"
    );
    answer::put_receipt(&mut response, &receipt);
    response
}
