//! From a plan to an answer.

use cheops_net::Body;
use cheops_plan::{Plan, Remainder};
use cheops_types::{PlanKind, Receipt, Visit};
use http::Response;

use crate::{
    cross,
    done::{Done, finish, put_receipt},
    job::Job,
    latest, run, write,
};

/// Executes a plan and makes the answer, receipt included.
pub(crate) async fn execute(mut job: Box<Job>, plan: &Plan, body: Body) -> Response<Body> {
    if job.concern.is_some() {
        return Box::pin(replicated(job, plan, body)).await;
    }
    if *plan == Plan::Local {
        return execute_here(&mut job, body).await;
    }
    let done = Box::pin(run::planned(&job, plan, body)).await;
    finish(&job, plan.kind(), done)
}

/// The same where this site's service alone is asked, and replication has nothing to do with it. The request's head need not
/// be copied then, and nothing is gone through that is there for several sites.
pub(crate) async fn execute_here(job: &mut Job, body: Body) -> Response<Body> {
    let mut head = match job.take_head() {
        Ok(head) => head,
        Err(problem) => return finish(job, PlanKind::Local, Done::refused(job.here(), problem)),
    };
    match job.send_here(&mut head, body).await {
        Ok(mut response) => {
            let visit = Visit::executed(job.here(), response.status().as_u16());
            put_receipt(job, Receipt::new(PlanKind::Local, vec![visit]), &mut response);
            response
        }
        Err(failed) => finish(job, PlanKind::Local, failed.into()),
    }
}

/// The same for a request that replication has to do with.
async fn replicated(mut job: Box<Job>, plan: &Plan, body: Body) -> Response<Body> {
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
        Plan::Latest { sites, via } if via.is_empty() => latest::read(&mut job, sites).await,
        Plan::Latest { sites, via } => {
            write::hand_over(&mut job, &Remainder::latest(sites), via.clone(), body).await
        }
        Plan::Owner(sites) => cross::change(&mut job, sites, None, body).await,
        Plan::Whole(sites) => cross::read_whole(&job, sites).await,
        Plan::Make(make) => cross::make(&mut job, make, body).await,
        _ => run::planned(&job, plan, body).await,
    };
    finish(&job, kind, done)
}
