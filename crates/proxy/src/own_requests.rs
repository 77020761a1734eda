//! Requests that replication makes itself: to the services of this site and to other sites' agents.

mod scope;

use std::{pin::pin, rc::Rc, sync::Arc};

use cheops_net::{Body, Bulk, Clock, Expired, SendError, SendErrorKind};
use cheops_ports::{Application, Later, NoAnswer, Peers};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Health, Limit, Problem, ServiceName, SiteName, VerbClass};
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
    head,
    job::{Flow, Job, Party},
    service::Service,
};

/// Sends from the control runtime, with connections of its own.
pub struct OwnRequests {
    proxy: Rc<Proxy>,
    shared: Arc<Shared>,
}

impl OwnRequests {
    /// Must run on the control runtime, with `clock` swept there.
    pub fn new(shared: Arc<Shared>, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            proxy: Proxy::new(shared.clone(), clock),
            shared,
        })
    }
}

impl Application for OwnRequests {
    fn call<'a>(
        &'a self,
        service: &'a ServiceName,
        request: Request<Body>,
        scope: &'a str,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(call(self.proxy.core(), service, request, scope))
    }
}

impl Peers for OwnRequests {
    fn ask<'a>(
        &'a self,
        site: &'a SiteName,
        request: Request<Body>,
        is_long: bool,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(ask(self.proxy.core(), site, request, is_long))
    }

    fn is_up(&self, site: &SiteName) -> bool {
        self.shared.distances.load().health(site) != Health::Down
    }
}

/// Hands a request to a service of this site. With a scope it begins a workflow of a replica's execution.
async fn call(
    core: Rc<Core>,
    service: &ServiceName,
    request: Request<Body>,
    scope: &str,
) -> Result<Response<Body>, NoAnswer> {
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
    let job = Job::new(core, service, head::copy(&head), flow, Party::Service);
    let Attempt {
        visit,
        answer,
        is_broken,
        ..
    } = Box::pin(job.attempt_here(&mut head, body)).await;
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

/// Sends a request to a site's peer port.
async fn ask(
    core: Rc<Core>,
    site: &SiteName,
    request: Request<Body>,
    is_long: bool,
) -> Result<Response<Body>, NoAnswer> {
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
