//! A plan that only asks services: one site, several of which one answers, or several at once.

mod order;

use std::{future::Future, pin::Pin};

use cheops_net::{Body, Replay};
use cheops_plan::Plan;
use cheops_types::{Code, Outcome, Problem, SiteName};

use crate::{attempt::Attempt, done::Done, gather, head, job::Job};

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
            Plan::Accept(_)
            | Plan::HandOver { .. }
            | Plan::Owner(_)
            | Plan::Whole(_)
            | Plan::Latest { .. }
            | Plan::Make(_) => {
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
