//! Requests that belong to no workflow: finding out what a service can do, proving who one is.

mod site_owned;

use std::{rc::Rc, sync::Arc};

use cheops_glue::{ByCredential, ContextFree};
use cheops_net::{Body, Connection, Received};
use cheops_plan::{Party, Plan, Silent};
use cheops_types::{Code, Outcome, Problem, SiteName, Visit, headers};
use http::{Response, header::ACCEPT_ENCODING, request};

use crate::{
    Counted, Role, Tag,
    attempt::Answer,
    core::Core,
    discovery::Question,
    done::finish,
    facts::{Asking, Wanting, why_context_free},
    head::Facts,
    job::{Flow, Job},
    run,
    service::Service,
    tunnel,
};

/// Answers a context-free request: here, unless its own scope or, where the glue says how to tell, the
/// workflow whose credential it is about places the service elsewhere. A key that it carries does not count.
pub(super) async fn handle(
    core: &Rc<Core>,
    connection: &Connection<Arc<Tag>>,
    service: &Rc<Service>,
    mut head: request::Parts,
    facts: Facts,
    incoming: Received,
    rule: &ContextFree,
) -> Response<Body> {
    super::strip_users_keys(core, connection.tag.role, &mut head.headers, facts);
    let question = if rule.is_remembered {
        Question::of(&service.name, &head, connection.subject.is_some())
    } else {
        None
    };
    let (flow, plan) = match find(core, connection.tag.role, service, &head, facts, rule) {
        Ok(Some(found)) => found,
        Ok(None) => {
            let question = question.map(Box::new);
            return super::plain(core, connection, service, &mut head, facts, incoming, question).await;
        }
        Err(problem) => return core.refuse(&problem),
    };
    core.counters.add(Counted::Scoped);
    head.headers.remove(headers::SCOPE);
    if !rule.site_owned.is_empty() {
        // Parts of the answer must be read.
        head.headers.remove(ACCEPT_ENCODING);
    }
    let (job, wish) = match super::job(core, connection, service, head, facts, &incoming, flow) {
        Ok(ready) => ready,
        Err(problem) => return core.refuse(&problem),
    };
    match wish {
        Some(wish) => tunnel::scoped(job, plan, wish, connection.hold()).await,
        None => answered(&job, &plan, Body::from(incoming), rule, question).await,
    }
}

async fn answered(
    job: &Job,
    plan: &Plan,
    body: Body,
    rule: &ContextFree,
    question: Option<Question>,
) -> Response<Body> {
    let mut done = if rule.site_owned.is_empty() {
        run::planned(job, plan, body).await
    } else {
        site_owned::answered(job, plan, body, rule).await
    };
    // Only what this site's service says is kept, and it stands in for this site's service alone.
    if let Some(question) = question.filter(|_| *plan == Plan::Local) {
        let discovery = &job.core.shared.discovery;
        let is_certainly_not_executed = done.certainly_not_executed();
        done.answer = match done.answer {
            Answer::Response(response) => {
                Answer::Response(discovery.keep(question, response, job.core.limits()))
            }
            problem @ Answer::Problem(_) if is_certainly_not_executed => match discovery.recall(&question) {
                Some(stale) => {
                    job.core.counters.add(Counted::Recalled);
                    Answer::Response(stale)
                }
                None => problem,
            },
            problem @ Answer::Problem(_) => problem,
        };
    }
    finish(job, plan.kind(), done)
}

/// What would happen to the request.
pub(super) fn plan(
    core: &Core,
    role: Role,
    service: &Service,
    head: &request::Parts,
    facts: Facts,
    rule: &ContextFree,
) -> Result<Plan, Problem> {
    let found = find(core, role, service, head, facts, rule)?;
    Ok(found.map_or(Plan::Local, |(_, plan)| plan))
}

/// Where the request goes, and on whose behalf; none when it is plain.
fn find(
    core: &Core,
    role: Role,
    service: &Service,
    head: &request::Parts,
    facts: Facts,
    rule: &ContextFree,
) -> Result<Option<(Flow, Plan)>, Problem> {
    if facts.scope {
        let carried = super::own_scope(core, service, &head.headers)?;
        let plan = at_once(core, service, head, rule, &carried.scope)?;
        return Ok(Some((Flow::Alone, plan)));
    }
    let Some(by) = rule.workflow.as_ref().filter(|_| role != Role::Public) else {
        return Ok(None);
    };
    by_credential(core, service, head, rule, by)
}

/// The workflow that began with the credential that the request is about. Workflows that do not say where
/// the service is have no part in it, and those that place it alike are as good as one.
fn by_credential(
    core: &Core,
    service: &Service,
    head: &request::Parts,
    rule: &ContextFree,
    by: &ByCredential,
) -> Result<Option<(Flow, Plan)>, Problem> {
    let Some(credential) = head.headers.get(by.header.as_str()) else {
        return Ok(None);
    };
    let correlation = &core.shared.correlation;
    let workflows = correlation
        .find_by_credential(&service.name, credential.as_bytes())
        .ok_or_else(super::lost)?;
    let mut plans = Vec::with_capacity(workflows.len());
    for workflow in &workflows {
        plans.push(at_once(core, service, head, rule, &workflow.carried.scope)?);
    }
    if plans.windows(2).any(|two| two[0] != two[1]) {
        let problem = ambiguous(service, by);
        // Whoever waits for one of them learns why the service could not verify the credential.
        let visit = Visit {
            service: Some(service.name.clone()),
            ..Visit::failed(&core.world.site, Outcome::NotExecuted, problem.code.as_str())
        };
        for workflow in &workflows {
            correlation.note(workflow, [visit.clone()]);
        }
        return Err(problem);
    }
    let Some((workflow, plan)) = workflows.into_iter().zip(plans).next() else {
        return Ok(None);
    };
    if let Some(site) = disbelieved(&plan, &core.world.unbelieved) {
        return Err(Problem::new(
            Code::CallerRefused,
            format!(
                "service `{}` of site `{site}` may not say here whose `{}` it is: the `vouch` of that site is `none`",
                service.name, by.credential
            ),
        )
        .of(&service.name));
    }
    Ok(Some((Flow::Joins(workflow), plan)))
}

/// Whoever answers such a request tells this site's services who a caller is: the first site that would and that
/// is not believed about callers.
fn disbelieved(plan: &Plan, unbelieved: &[SiteName]) -> Option<SiteName> {
    let mut found = None;
    plan.all_sites(&mut |site| {
        let is_believed = !unbelieved.contains(site);
        if !is_believed {
            found = Some(site.clone());
        }
        is_believed
    });
    found
}

fn ambiguous(service: &Service, by: &ByCredential) -> Problem {
    let (name, credential) = (&service.name, &by.credential);
    Problem::new(
        Code::CorrelationAmbiguous,
        format!(
            "workflows with the same `{credential}` place service `{name}` at different sites, and the call does not tell them apart; use another credential for each, or wait until the earlier one is over"
        ),
    )
    .of(name)
}

/// The plan of a request that has the same effect wherever it is executed: of several sites at once one
/// is enough.
fn at_once(
    core: &Core,
    service: &Service,
    head: &request::Parts,
    rule: &ContextFree,
    scope: &cheops_scope::Scope,
) -> Result<Plan, Problem> {
    let asking = Asking::of(core, &service.name, head, Party::User);
    let wanting = Wanting {
        context_free: Some(why_context_free(rule)),
        ..Wanting::scope(&asking, Some(scope))
    };
    asking.decide(&wanting, &mut Silent).plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_whose_word_counts_nothing_is_not_asked_who_a_caller_is() {
        let site = |name| SiteName::new(name).unwrap();
        let forward = |name| Plan::Forward(site(name));
        let unbelieved = [site("far")];
        for plan in [
            Plan::Local,
            forward("near"),
            Plan::Fallback(vec![Plan::Local, forward("near")]),
        ] {
            assert_eq!(disbelieved(&plan, &unbelieved), None, "{plan:?}");
        }
        for plan in [
            forward("far"),
            Plan::FirstOf(vec![
                Plan::Local,
                Plan::Fallback(vec![forward("near"), forward("far")]),
            ]),
        ] {
            assert_eq!(disbelieved(&plan, &unbelieved), Some(site("far")), "{plan:?}");
        }
    }
}
