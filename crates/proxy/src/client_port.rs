//! Requests of users and of this site's own services.

mod context_free;

use std::{pin::pin, rc::Rc, sync::Arc};

use cheops_glue::Carrier;
use cheops_net::{Body, Connection, Expired, Received, SendError};
use cheops_plan::Plan;
use cheops_scope::{ParseLimits, Scope, read};
use cheops_types::{Code, Limit, Outcome, PlanKind, Problem, ServiceName, VerbClass, headers};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, request};

use crate::{
    Counted, Role, Tag, WorldView, answer, carry,
    core::Core,
    correlation::{Carried, Found},
    discovery::Question,
    done::{Done, finish},
    execute::{execute, execute_here},
    facts::{self, Asking},
    head::{self, Facts},
    job::{Flow, Job, Party},
    operation,
    service::{Service, identity::Sender},
    tunnel::{self, Wish},
};

const SCOPE: HeaderName = HeaderName::from_static(headers::SCOPE);

pub(crate) fn handle(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    name: &ServiceName,
    request: Request<Received>,
) -> impl Future<Output = Response<Body>> {
    let (mut head, incoming) = request.into_parts();
    let facts = Facts::of(&head.headers);
    async move {
        let Some(service) = core.service(name) else {
            let detail = format!("service `{name}` is no longer configured at this site");
            return answer::problem(&Problem::new(Code::ShuttingDown, detail).of(name));
        };
        if operation::is_asked(core, &head) {
            return Box::pin(operation::answer(core, &head)).await;
        }
        if let Err(problem) = facts::check_path(&Asking::of(core, name, &head, Party::User)) {
            return core.refuse(&problem);
        }
        if facts.explain {
            return explained(core, connection, service, head, facts, &incoming);
        }
        let profile = &core.world.profile;
        if let Some(rule) = profile.context_free(name, head.method.as_str(), head.uri.path()) {
            return Box::pin(context_free::handle(
                core, connection, service, head, facts, incoming, rule,
            ))
            .await;
        }
        match find_flow(core, connection.tag.role, service, &mut head.headers, facts) {
            Ok(None) if !facts::concerns(&core.world, &core.shared, name, head.uri.path()) => {
                plain(core, connection, service, &mut head, facts, incoming, None).await
            }
            Ok(flow) => match planned(core, connection, service, head, facts, &incoming, flow) {
                // What asks one service differs little from a request without a scope. All else is boxed.
                Ok((mut job, Plan::Local, None)) if job.concern.is_none() => {
                    execute_here(&mut job, Body::from(incoming)).await
                }
                Ok((job, plan, None)) => Box::pin(execute(job, &plan, Body::from(incoming))).await,
                Ok((job, plan, Some(wish))) => {
                    Box::pin(tunnel::scoped(job, plan, wish, connection.hold())).await
                }
                Err(refusal) => *refusal,
            },
            Err(problem) => core.refuse(&problem),
        }
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
    strip_users_keys(core, role, headers, facts);
    if role == Role::Public {
        return if facts.scope {
            own_scope(core, service, headers).map(|carried| Some(Flow::Begins(carried)))
        } else {
            Ok(None)
        };
    }
    let workflow = match carry::find_workflow(headers, carriers, correlation, core.limits()) {
        Found::Known(workflow) => Some(workflow),
        Found::Lost if !facts.scope => return Err(lost()),
        Found::Lost | Found::Foreign => None,
    };
    if !facts.scope {
        return Ok(workflow.map(Flow::Joins));
    }
    // A service that passes on both the scope and the key is in the same workflow.
    match (own_scope(core, service, headers)?, workflow) {
        (carried, Some(workflow)) if carried.scope == workflow.carried.scope => {
            Ok(Some(Flow::Joins(workflow)))
        }
        (carried, _) => Ok(Some(Flow::Begins(carried))),
    }
}

/// A user's own keys say nothing; one of ours would lead into somebody else's workflow.
fn strip_users_keys(core: &Core, role: Role, headers: &mut HeaderMap, facts: Facts) {
    let carriers = core.world.profile.correlation();
    let may_be_elsewhere = || {
        let is_trace = |carrier: &Carrier| {
            matches!(
                carrier,
                Carrier::ScopeHeader | Carrier::Traceparent | Carrier::Tracestate
            )
        };
        !carriers.iter().all(is_trace)
    };
    if role == Role::Public && (facts.trace || may_be_elsewhere()) {
        carry::strip_keys(headers, carriers, core.shared.correlation.keys());
    }
}

fn lost() -> Problem {
    Problem::new(
        Code::CorrelationLost,
        "the call belongs to a scoped workflow whose scope this agent no longer knows (it restarted, or other scopes took its place), or its `cheops` member was changed on the way; start the workflow again",
    )
}

/// Reads and checks the scope that the request itself brings.
fn own_scope(core: &Core, service: &Service, headers: &HeaderMap) -> Result<Arc<Carried>, Problem> {
    // There are few headers, and each has been looked at already: to find one by its name costs more.
    let mut values = headers.iter().filter(|(name, _)| **name == SCOPE);
    let (Some((_, value)), None) = (values.next(), values.next()) else {
        return Err(Problem::new(
            Code::ScopeRepeated,
            "send one `X-Scope` header; join entries with `,` inside it",
        ));
    };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::new(Code::ScopeSyntax, "the scope is not UTF-8 text"))?;
    service.scopes.get_or_read(text, || {
        let scope = read_and_check(core, text)?;
        Ok(Carried::new(scope.to_full(&service.name)))
    })
}

fn read_and_check(core: &Core, text: &str) -> Result<Scope, Problem> {
    let limits = ParseLimits::from(core.limits());
    let view = WorldView::new(&core.world, core.shared.distances.load_full());
    read(text, &limits, Some(&view)).map_err(|diagnostics| {
        match diagnostics.first().code {
            Code::ScopeTooLong => Limit::ScopeBytes.hit(),
            Code::ScopeTooDeep => Limit::ScopeDepth.hit(),
            _ => {}
        }
        diagnostics.to_problem(text)
    })
}

// === steps 4 to 6 ===

/// A request, what becomes of it, and the wish to switch protocols, where it has one.
type Planned = (Box<Job>, Plan, Option<Wish>);

/// Finds out what becomes of a request that has a scope or concerns replicas, or why it is refused.
fn planned(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    service: &Rc<Service>,
    head: request::Parts,
    facts: Facts,
    incoming: &Received,
    flow: Option<Flow>,
) -> Result<Planned, Box<Response<Body>>> {
    core.counters.add(match &flow {
        None => Counted::Plain,
        Some(_) => Counted::Scoped,
    });
    if connection.tag.role == Role::Internal && matches!(flow, Some(Flow::Begins(_))) {
        core.shared.correlation.note_passed_scope();
    }
    let flow = flow.unwrap_or(Flow::Alone);
    let (mut job, wish) = job(core, connection, service, head, facts, incoming, flow)
        .map_err(|problem| Box::new(core.refuse(&problem)))?;
    match facts::decide(&mut job, None, wish.is_some()) {
        Ok(plan) => Ok((job, plan, wish)),
        // The workflow that it belongs to is told, too.
        Err(problem) => {
            let refused = Done::refused(job.here(), problem);
            Err(Box::new(finish(&job, PlanKind::Local, refused)))
        }
    }
}

/// What the request would do; nothing of it runs.
fn explained(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    service: &Rc<Service>,
    mut head: request::Parts,
    facts: Facts,
    incoming: &Received,
) -> Response<Body> {
    let is_asked = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"plan");
    if !head.headers.get(headers::EXPLAIN).is_some_and(is_asked) {
        let detail = "`Cheops-Explain` has one value: `plan`; nothing executed";
        return core.refuse(&Problem::new(Code::BadRequest, detail));
    }
    let profile = &core.world.profile;
    if let Some(rule) = profile.context_free(&service.name, head.method.as_str(), head.uri.path()) {
        strip_users_keys(core, connection.tag.role, &mut head.headers, facts);
        let plan = context_free::plan(core, connection.tag.role, service, &head, facts, rule);
        return answer::json(&facts::explain_context_free(
            &service.name,
            profile,
            &head,
            plan,
            rule,
        ));
    }
    let flow = find_flow(core, connection.tag.role, service, &mut head.headers, facts);
    let ready = flow.and_then(|flow| {
        let flow = flow.unwrap_or(Flow::Alone);
        job(core, connection, service, head, facts, incoming, flow)
    });
    match ready {
        Ok((job, wish)) => answer::json(&facts::explain(&job, wish.is_some())),
        Err(problem) => core.refuse(&problem),
    }
}

/// A request ready to be planned, and the wish to switch protocols, where it has one.
fn job(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    service: &Rc<Service>,
    mut head: request::Parts,
    facts: Facts,
    incoming: &Received,
    flow: Flow,
) -> Result<(Box<Job>, Option<Wish>), Problem> {
    let wish = Wish::take(&head, facts, incoming, connection);
    head::prepare(&mut head, facts, service, sender(connection))?;
    let caller = match (connection.tag.role, &flow) {
        (Role::Internal, _) | (Role::Shared, Flow::Joins(_)) => Party::Service,
        _ => Party::User,
    };
    let mut job = Job::new(core.clone(), service.clone(), head, flow, caller);
    job.client = connection.client();
    // An identity is put on a head as the glue says, in any header.
    job.may_show_credential = facts.credential || job.service.identity.is_some();
    job.is_tls = connection.is_tls;
    // With one address for both, a user's scope cannot be told from one that a service passes on.
    job.tells_unused = connection.tag.role == Role::Public;
    Ok((job, wish))
}

/// Passes a request on. The answer to a question that is remembered is kept, and given when the service
/// cannot be reached.
///
/// `head` is left empty. It is borrowed, and this is one block without others in it, because what a future has is moved
/// into it, and what it comes to is moved out of it.
async fn plain(
    core: &Core,
    connection: &Connection<Arc<Tag>>,
    service: &Service,
    head: &mut request::Parts,
    facts: Facts,
    incoming: Received,
    question: Option<Box<Question>>,
) -> Response<Body> {
    core.counters.add(Counted::Plain);
    let wish = Wish::take(head, facts, &incoming, connection);
    if let Err(problem) = head::prepare(head, facts, service, sender(connection)) {
        return core.refuse(&problem);
    }
    let method = head.method.clone();
    let timeout_ms = core.limits().upstream_timeout_ms;
    let answered = if let Some(wish) = wish {
        let switching = Box::pin(tunnel::plain(
            core,
            service,
            head::take(head),
            wish,
            connection.hold(),
        ));
        core.clock.timeout_idle(timeout_ms, None, switching).await
    } else {
        let (body, progress) = Body::from(incoming).watch_request(&service.trailers);
        let upstream = service.upstream_for(&mut head.headers);
        let sending = pin!(upstream.send(head::take_as_request(head, body)));
        let mut answered = core.clock.timeout_idle(timeout_ms, progress, sending).await;
        if let Ok(Ok(response)) = &mut answered {
            head::clean_response(response.headers_mut());
        }
        answered
    };
    let error = match answered {
        Ok(Ok(response)) => {
            return match question {
                Some(question) => core.shared.discovery.keep(*question, response, core.limits()),
                None => response,
            };
        }
        Ok(Err(error)) => error,
        Err(Expired) => {
            Limit::UpstreamTimeout.hit();
            SendError::timeout(timeout_ms)
        }
    };
    unanswered(core, service, &method, &error, question.as_deref())
}

/// The answer in place of the service's. Not on the fast path any more: it says what is known about execution.
fn unanswered(
    core: &Core,
    service: &Service,
    method: &Method,
    error: &SendError,
    question: Option<&Question>,
) -> Response<Body> {
    let here = &core.world.site;
    if error.outcome == Outcome::NotExecuted
        && let Some(mut stale) = question.and_then(|question| core.shared.discovery.recall(question))
    {
        core.counters.add(Counted::Recalled);
        answer::put_failure(&mut stale, here, error.outcome, Code::UpstreamUnreachable);
        return stale;
    }
    core.counters.add(Counted::Problems);
    let verb = if method.is_safe() {
        VerbClass::ReadOne
    } else {
        VerbClass::Action
    };
    let problem = answer::upstream_problem(error, here, &service.name, verb);
    answer::failure(&problem, here, error.outcome)
}

fn sender(connection: &Connection<Arc<Tag>>) -> Sender<'_> {
    Sender::Client(connection.subject.as_ref())
}
