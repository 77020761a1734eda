//! What is known of a request before anything is decided: cheap to find out, and without effects.

mod concern;
mod explained;
mod path;

use cheops_glue::{ContextFree, Profile};
use cheops_plan::{Decided, Party, Plan, Remainder, Silent, Tell, Wish};
use cheops_scope::Scope;
use cheops_types::{Problem, ServiceName, VerbClass, headers};
use http::{HeaderMap, Method, request};

use crate::{
    Shared, World, WorldView,
    core::Core,
    job::{AnswerIds, Job},
};
pub(crate) use concern::concerns;
pub use explained::{ExplainAsk, Explained, explain_request};
pub(crate) use path::check_path;

const CHANGES_NOTHING: &str = "it changes nothing";

/// A request's head, as far as a decision depends on it.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) world: &'a World,
    pub(crate) shared: &'a Shared,
    pub(crate) service: &'a ServiceName,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) caller: Party,
    /// Whether another agent has reserved the name of what it makes.
    pub(crate) is_named: bool,
}

/// What else is known of it: who wants what.
#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub(crate) struct Wanting<'a> {
    pub(crate) verb: VerbClass,
    /// Whether endless answers of several sites can be made one.
    pub(crate) is_watchable: bool,
    pub(crate) wish: Wish<'a>,
    pub(crate) is_placed: bool,
    pub(crate) is_inside_replica: bool,
    /// Whether it wants to switch protocols.
    pub(crate) switches: bool,
    /// Why it belongs to no workflow, if it does not: replication has nothing to do with it then.
    pub(crate) context_free: Option<&'static str>,
}

impl<'a> Wanting<'a> {
    pub(crate) fn scope(asking: &Asking<'_>, scope: Option<&'a Scope>) -> Self {
        let Asking { world, service, .. } = *asking;
        let identity = world
            .profile
            .identify(service, asking.method.as_str(), asking.path);
        Self {
            verb: identity.verb,
            is_watchable: identity.list.is_some_and(|list| list.watch.is_some()),
            wish: Wish::Scope(scope),
            is_placed: scope.is_some_and(|scope| scope.loc_of(service).is_some()),
            is_inside_replica: false,
            switches: false,
            context_free: None,
        }
    }
}

/// Why a request belongs to no workflow.
pub(crate) fn why_context_free(rule: &ContextFree) -> &'static str {
    match rule.workflow {
        Some(_) => "it belongs to no workflow but the one whose credential it is about",
        None => "it belongs to no workflow",
    }
}

impl<'a> Asking<'a> {
    /// What an agent, a service or a user asks of a service of this site.
    pub(crate) fn of(
        core: &'a Core,
        service: &'a ServiceName,
        head: &'a request::Parts,
        caller: Party,
    ) -> Self {
        Self {
            world: &core.world,
            shared: &core.shared,
            service,
            method: &head.method,
            path: head.uri.path(),
            query: head.uri.query(),
            headers: &head.headers,
            caller,
            is_named: false,
        }
    }

    /// Decides what happens, and tells why.
    pub(crate) fn decide<T: Tell>(&self, wanting: &Wanting<'_>, tell: &mut T) -> Decided {
        let profile = &self.world.profile;
        let Wanting { verb, .. } = *wanting;
        let is_effect_free =
            || !verb.is_read() && profile.is_effect_free(self.service, self.method.as_str(), self.path);
        let one_site = wanting
            .context_free
            .or_else(|| is_effect_free().then_some(CHANGES_NOTHING));
        let request = cheops_plan::Request {
            service: self.service,
            verb,
            caller: self.caller,
            wish: wanting.wish,
            is_placed: wanting.is_placed,
            one_site,
            is_get: *self.method == Method::GET,
            is_stream: profile.is_stream(self.service, self.path, self.query),
            is_watchable: wanting.is_watchable,
            switches: wanting.switches,
            is_inside_replica: wanting.is_inside_replica,
        };
        let view = WorldView::new(self.world, self.shared.distances.load_full());
        let look = |wants_sites| match wanting.context_free {
            Some(_) => Ok(None),
            None => self.concern(verb, wants_sites, one_site.is_some()),
        };
        cheops_plan::decide(&request, &view, look, tell)
    }
}

/// Decides what happens to a request. What it was decided by stays with the request.
pub(crate) fn decide(job: &mut Job, remainder: Option<&Remainder>, switches: bool) -> Result<Plan, Problem> {
    let decided = decide_and_tell(job, remainder, switches, &mut Silent);
    job.answer_ids = AnswerIds::of(&decided, job.caller);
    job.concern = decided.concern;
    decided.plan
}

/// Finds out once more what replication has to do with a request that was decided a while ago.
pub(crate) fn look_again(job: &mut Job) -> Result<(), Problem> {
    let asking = Asking::of(&job.core, &job.service.name, &job.head, job.caller);
    job.concern = asking.concern(job.verb, true, false)?;
    Ok(())
}

/// The same decision with its reasons, and nothing else.
pub(crate) fn explain(job: &Job, switches: bool) -> Explained {
    let mut reasons = Vec::new();
    let decided = decide_and_tell(job, None, switches, &mut reasons);
    let uri = &job.head.uri;
    Explained::new(
        &job.service.name,
        (
            job.head.method.as_str(),
            uri.path_and_query().map_or("/", |path| path.as_str()),
        ),
        job.verb,
        job.carried().map(|carried| carried.text.clone()),
        decided.plan,
        reasons,
    )
}

/// The same for a request that belongs to no workflow.
pub(crate) fn explain_context_free(
    service: &ServiceName,
    profile: &Profile,
    head: &request::Parts,
    plan: Result<Plan, Problem>,
    rule: &ContextFree,
) -> Explained {
    let (method, uri) = (head.method.as_str(), &head.uri);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let verb = profile.identify(service, method, uri.path()).verb;
    let scope = head
        .headers
        .get(headers::SCOPE)
        .and_then(|value| value.to_str().ok());
    let reasons = vec![format!(
        "{}: one site is enough, this one unless a scope names others",
        why_context_free(rule)
    )];
    Explained::new(
        service,
        (method, path),
        verb,
        scope.map(str::to_owned),
        plan,
        reasons,
    )
}

fn decide_and_tell<T: Tell>(
    job: &Job,
    remainder: Option<&Remainder>,
    switches: bool,
    tell: &mut T,
) -> Decided {
    let wish = match remainder {
        Some(remainder) => Wish::Peer(remainder),
        None => Wish::Scope(job.carried().map(|carried| &carried.scope)),
    };
    let wanting = Wanting {
        verb: job.verb,
        is_watchable: job.list.as_ref().is_some_and(|list| list.watch.is_some()),
        wish,
        is_placed: job.is_placed(),
        is_inside_replica: job.is_inside_replica(),
        switches,
        context_free: None,
    };
    let asking = Asking {
        is_named: remainder.is_some_and(|remainder| remainder.is_named),
        ..Asking::of(&job.core, &job.service.name, &job.head, job.caller)
    };
    asking.decide(&wanting, tell)
}
