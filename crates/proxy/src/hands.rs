//! Requests that replication makes itself: to the services of this site and to other sites' agents.

mod scope;

use std::{pin::pin, rc::Rc, sync::Arc};

use cheops_net::{Body, Bulk, Clock, Expired, SendError, SendErrorKind};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Limit, Outcome, Problem, ServiceName, SiteName, VerbClass};
use http::{
    HeaderValue, Request, Response,
    header::{CONTENT_LENGTH, HOST},
};

use crate::{
    Counted, Proxy, Shared, WorldView,
    answer::{self, unlinked},
    attempt::{Answer, Attempt},
    core::Core,
    correlation::Carried,
    job::{Caller, Flow, Job},
    service::Service,
};

/// No answer.
#[derive(Debug)]
pub struct NoAnswer {
    /// Whether the request may have executed.
    pub outcome: Outcome,
    /// The connection ended, instead of being silent.
    pub is_broken: bool,
    pub problem: Problem,
}

impl NoAnswer {
    fn not_executed(problem: Problem) -> Self {
        Self {
            outcome: Outcome::NotExecuted,
            is_broken: false,
            problem,
        }
    }
}

/// The way from the control runtime to services and sites, with connections of its own.
pub struct Hands {
    proxy: Rc<Proxy>,
}

impl Hands {
    /// Must run on the control runtime, with `clock` swept there.
    pub fn new(shared: Arc<Shared>, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            proxy: Proxy::new(shared, clock),
        })
    }

    /// Hands a request in origin form to a service of this site. With a scope it begins a workflow of a
    /// replica's execution: there `&` means one site.
    pub async fn call(
        &self,
        service: &ServiceName,
        request: Request<Body>,
        scope: &str,
    ) -> Result<Response<Body>, NoAnswer> {
        let core = self.proxy.core();
        let service = find_service(&core, service).map_err(NoAnswer::not_executed)?;
        let flow = flow(&core, scope).map_err(NoAnswer::not_executed)?;
        let (mut head, body) = request.into_parts();
        // The body decides; it need not be the one that its caller sent.
        head.headers.remove(CONTENT_LENGTH);
        if !head.headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::try_from(service.upstream.target().authority())
        {
            head.headers.insert(HOST, host);
        }
        let job = Job::new(
            core.clone(),
            service,
            crate::head::copy(&head),
            flow,
            Caller::Service,
        );
        let Attempt {
            visit,
            answer,
            is_broken,
            ..
        } = Box::pin(job.attempt_here(head, body)).await;
        job.close(std::slice::from_ref(&visit), Vec::new());
        match answer {
            Answer::Response(response) => Ok(response),
            Answer::Problem(problem) => Err(NoAnswer {
                outcome: visit.outcome,
                is_broken,
                problem,
            }),
        }
    }

    /// Sends a request to a site's peer port. A long body or answer takes the connection for long ones.
    pub async fn ask(
        &self,
        site: &SiteName,
        request: Request<Body>,
        is_long: bool,
    ) -> Result<Response<Body>, NoAnswer> {
        let core = self.proxy.core();
        let Some(link) = core.peer(site) else {
            return Err(NoAnswer::not_executed(unlinked(site)));
        };
        core.counters.add(Counted::ToPeers);
        let bulk = if is_long { Bulk::Yes } else { Bulk::No };
        let timeout_ms = core.limits().peer_timeout_ms;
        let (head, body) = request.into_parts();
        let (body, progress) = body.watch();
        let sending = pin!(link.send(Request::from_parts(head, body), bulk));
        let error = match core.clock.timeout_idle(timeout_ms, progress, sending).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => error,
            Err(Expired) => {
                Limit::PeerTimeout.hit();
                SendError::timeout(timeout_ms)
            }
        };
        // What agents ask each other may always be asked again.
        let problem = answer::peer_problem(&error, site, VerbClass::ReadOne);
        Err(NoAnswer {
            outcome: error.outcome,
            is_broken: error.kind == SendErrorKind::Broken,
            problem,
        })
    }
}

fn find_service(core: &Core, name: &ServiceName) -> Result<Rc<Service>, Problem> {
    core.service(name).cloned().ok_or_else(|| {
        let here = &core.world.site;
        Problem::new(
            Code::UnknownService,
            format!("site `{here}` has no service `{name}`; its configuration lists the services it has"),
        )
        .at(here)
        .of(name)
    })
}

/// An operation's scope is in canonical form and was checked where it was accepted.
fn flow(core: &Core, text: &str) -> Result<Flow, Problem> {
    if text.is_empty() {
        return Ok(Flow::Alone);
    }
    let limits = ParseLimits {
        max_bytes: core.limits().scope_max_bytes,
        max_depth: core.limits().scope_max_depth,
    };
    let scope =
        read(text, &limits.for_printed(), None).map_err(|diagnostics| diagnostics.to_problem(text))?;
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    let scope = scope::inside_replica(&scope, &view);
    Ok(Flow::Begins(Carried::of(scope, true)))
}
