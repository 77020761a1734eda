//! Requests of users and of this site's own services.

use std::{pin::pin, rc::Rc, sync::Arc};

use cheops_net::{Body, Connection, Expired, SendError};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Limit, Limits, Problem, ServiceName, VerbClass, headers};
use http::{HeaderMap, Request, Response, request};
use hyper::body::Incoming;

use crate::{
    Counted, Role, Tag, WorldView, answer, carry,
    core::{Core, Service},
    correlation::{Carried, Found},
    execute,
    head::{self, Facts},
    job::{Caller, Flow, Job},
    operation, replicated,
    tunnel::{self, Wish},
};

pub(crate) async fn handle(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    name: &ServiceName,
    request: Request<Incoming>,
) -> Response<Body> {
    let Some(service) = core.service(name) else {
        let detail = format!("service `{name}` is no longer configured at this site");
        return answer::problem(&Problem::new(Code::ShuttingDown, detail).of(name));
    };
    let (mut head, incoming) = request.into_parts();
    if operation::is_asked(core, &head) {
        return Box::pin(operation::answer(core, &head)).await;
    }
    let facts = Facts::of(&head.headers);
    match find_flow(core, connection.tag.role, service, &mut head.headers, facts) {
        Ok(None) if replicated::concerns(core, name, head.uri.path()) => {
            core.counters.add(Counted::Plain);
            Box::pin(planned(
                core,
                connection,
                service,
                head,
                facts,
                incoming,
                Flow::Alone,
            ))
            .await
        }
        Ok(None) => plain(core, connection, service, head, facts, incoming).await,
        Ok(Some(flow)) => {
            core.counters.add(Counted::Scoped);
            Box::pin(planned(core, connection, service, head, facts, incoming, flow)).await
        }
        Err(problem) => core.refuse(&problem),
    }
}

// === steps 1 to 3: identify, scope, check ===

/// The scope header, else what the workflow carries, else none.
fn find_flow(
    core: &Core,
    role: Role,
    service: &Service,
    headers: &mut HeaderMap,
    facts: Facts,
) -> Result<Option<Flow>, Problem> {
    let carriers = core.world.profile.correlation();
    let correlation = &core.shared.correlation;
    // A user's own keys say nothing; one of ours would lead into somebody else's workflow.
    if role == Role::Public {
        if facts.trace || !correlation.is_empty() {
            carry::strip_keys(headers, carriers, correlation);
        }
        return if facts.scope {
            own_scope(core, service, headers).map(Some)
        } else {
            Ok(None)
        };
    }
    let workflow = match carry::find_key(headers, carriers, correlation).map(|key| correlation.find(key)) {
        Some(Found::Known(workflow)) => Some(workflow),
        Some(Found::Lost) if !facts.scope => return Err(lost(core.limits())),
        Some(Found::Lost | Found::Foreign) | None => None,
    };
    if !facts.scope {
        return Ok(workflow.map(Flow::Joins));
    }
    // A service that passes on both the scope and the key is in the same workflow.
    match (own_scope(core, service, headers)?, workflow) {
        (Flow::Begins(carried), Some(workflow)) if carried.scope == workflow.carried.scope => {
            Ok(Some(Flow::Joins(workflow)))
        }
        (flow, _) => Ok(Some(flow)),
    }
}

fn lost(limits: &Limits) -> Problem {
    Problem::new(
        Code::CorrelationLost,
        format!(
            "the call belongs to a scoped workflow that this agent no longer knows (it restarted, or the workflow was idle for {} s); start the workflow again",
            limits.correlation_idle_s
        ),
    )
}

/// Reads and checks the scope that the request itself brings.
fn own_scope(core: &Core, service: &Service, headers: &HeaderMap) -> Result<Flow, Problem> {
    let mut values = headers.get_all(headers::SCOPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Problem::new(
            Code::ScopeRepeated,
            "send one `X-Scope` header; join entries with `,` inside it",
        ));
    };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::new(Code::ScopeSyntax, "the scope is not UTF-8 text"))?;
    let limits = core.limits();
    let parse_limits = ParseLimits {
        max_bytes: limits.scope_max_bytes,
        max_depth: limits.scope_max_depth,
    };
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    let scope = read(text, &parse_limits, Some(&view)).map_err(|diagnostics| {
        match diagnostics.first().code {
            Code::ScopeTooLong => Limit::ScopeBytes.hit(),
            Code::ScopeTooDeep => Limit::ScopeDepth.hit(),
            _ => {}
        }
        diagnostics.to_problem(text)
    })?;
    Ok(Flow::Begins(Carried::new(scope.to_full(&service.name))))
}

// === steps 4 to 6 ===

async fn planned(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    service: &Rc<Service>,
    mut head: request::Parts,
    facts: Facts,
    incoming: Incoming,
    flow: Flow,
) -> Response<Body> {
    let wish = Wish::take(&mut head, facts, &incoming);
    if let Err(problem) = head::prepare(&mut head, facts, service, false) {
        return core.refuse(&problem);
    }
    let caller = match (connection.tag.role, &flow) {
        (Role::Internal, _) | (Role::Shared, Flow::Joins(_)) => Caller::Service,
        _ => Caller::User,
    };
    let mut job = Job::new(core.clone(), service.clone(), head, flow, caller);
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    let scope = job.carried().map(|carried| &carried.scope);
    let plan = match cheops_plan::plan(&service.name, job.verb, scope, &view) {
        Ok(plan) => plan,
        Err(refusal) => return core.refuse(&refusal.to_problem()),
    };
    if let Err(problem) = replicated::look(&mut job, &plan) {
        return core.refuse(&problem);
    }
    match wish {
        Some(wish) => tunnel::scoped(job, plan, wish, connection.hold()).await,
        None => execute::execute(job, &plan, Body::from(incoming)).await,
    }
}

async fn plain(
    core: &Core,
    connection: &Connection<Arc<Tag>>,
    service: &Service,
    mut head: request::Parts,
    facts: Facts,
    incoming: Incoming,
) -> Response<Body> {
    core.counters.add(Counted::Plain);
    let wish = Wish::take(&mut head, facts, &incoming);
    if let Err(problem) = head::prepare(&mut head, facts, service, false) {
        return core.refuse(&problem);
    }
    let method = head.method.clone();
    let (body, progress) = Body::from(incoming).watch();
    let timeout_ms = core.limits().upstream_timeout_ms;
    let sending = pin!(async {
        if let Some(wish) = wish {
            return Box::pin(tunnel::plain(core, service, head, wish, connection.hold())).await;
        }
        let mut response = service.upstream.send(Request::from_parts(head, body)).await?;
        head::clean_response(response.headers_mut());
        Ok(response)
    });
    let error = match core.clock.timeout_idle(timeout_ms, progress, sending).await {
        Ok(Ok(response)) => return response,
        Ok(Err(error)) => error,
        Err(Expired) => {
            Limit::UpstreamTimeout.hit();
            SendError::timeout(timeout_ms)
        }
    };
    core.counters.add(Counted::Problems);
    // Not on the fast path any more: the answer says what is known about execution.
    let verb = if method.is_safe() {
        VerbClass::ReadOne
    } else {
        VerbClass::Action
    };
    let here = &core.world.site;
    answer::failure(
        &answer::upstream_problem(&error, here, &service.name, verb),
        here,
        error.outcome,
    )
}
