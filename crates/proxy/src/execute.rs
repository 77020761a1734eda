//! From a plan to an answer.

use cheops_net::Body;
use cheops_plan::{Plan, Remainder};
use http::Response;

use crate::{
    cross,
    done::{Done, finish},
    job::Job,
    run, write,
};

/// Executes a plan and makes the answer, receipt included.
pub(crate) async fn execute(job: Job, plan: &Plan, body: Body) -> Response<Body> {
    if job.concern.is_some() {
        return Box::pin(replicated(job, plan, body)).await;
    }
    let done = run::planned(&job, plan, body).await;
    finish(&job, plan.kind(), done)
}

/// The same for a request that replication has to do with.
async fn replicated(mut job: Job, plan: &Plan, body: Body) -> Response<Body> {
    let mut kind = plan.kind();
    let done = match plan {
        Plan::Accept(target) => {
            let done: Done;
            (kind, done) = write::accept(&mut job, target.clone(), kind, body).await;
            done
        }
        Plan::HandOver { to, target } => {
            write::hand_over(&mut job, &Remainder::accept(target), to.clone(), body).await
        }
        Plan::Owner(sites) => cross::change(&mut job, sites, None, body).await,
        Plan::Whole(sites) => cross::read_whole(&job, sites).await,
        Plan::Make(make) => cross::make(&mut job, make, body).await,
        _ => run::planned(&job, plan, body).await,
    };
    finish(&job, kind, done)
}
