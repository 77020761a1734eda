//! What a plan has come to, and the answer that is made of it.

use cheops_net::Body;
use cheops_ports::Told;
use cheops_types::{Outcome, PlanKind, Problem, Receipt, SiteName, Visit};
use http::{Response, StatusCode};

use crate::{
    Counted, answer,
    attempt::{Answer, Attempt, Places, Unused},
    job::{Job, Party},
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
    let receipt = Receipt {
        complete,
        workflow,
        ..Receipt::new(plan, visits)
    };
    put_receipt(job, receipt, &mut response);
    response
}

/// Ends the job, and says in the answer what happened. The workflow of `receipt` is what this job has found out of it.
pub(crate) fn put_receipt(job: &Job, mut receipt: Receipt, response: &mut Response<Body>) {
    receipt.workflow = job.close(&receipt.sites, std::mem::take(&mut receipt.workflow));
    if let Some(told) = response.extensions_mut().remove::<Told>() {
        tell(&mut receipt, told);
    } else {
        let elsewhere = response.extensions_mut().remove::<Unused>();
        receipt.unused = elsewhere.map_or_else(|| job.unused(&receipt), |unused| unused.0);
    }
    if job.caller == Party::Peer
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
    job.core.receipts.put(response, &receipt, job.here());
}
