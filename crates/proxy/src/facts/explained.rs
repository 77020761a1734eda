//! A decision in words: what `explain` and `Cheops-Explain: plan` answer with.

use cheops_plan::{Party, Plan};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Problem, ServiceName, VerbClass};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Asking, Wanting, check_path, why_context_free};
use crate::{Shared, WorldView, head};

/// What a request would become, and why. Nothing of it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    pub service: ServiceName,
    pub method: String,
    pub path: String,
    /// What the request does, as the glue sees it.
    pub verb: VerbClass,
    /// The scope in canonical form; none for a request without one.
    pub scope: Option<String>,
    /// The plan in one line; `refuse(code)` where nothing would run.
    pub plan: String,
    /// What a receipt would call the plan; none where nothing would run.
    pub kind: Option<String>,
    /// The plan as a tree.
    pub tree: Value,
    /// Why the plan is so, one sentence each.
    pub notes: Vec<String>,
}

impl Explained {
    pub(super) fn new(
        service: &ServiceName,
        (method, path): (&str, &str),
        verb: VerbClass,
        scope: Option<String>,
        plan: Result<Plan, Problem>,
        mut notes: Vec<String>,
    ) -> Self {
        let (plan, kind, tree) = match plan {
            Ok(plan) => {
                let tree = serde_json::to_value(&plan).unwrap_or_default();
                (plan.to_string(), Some(plan.kind().to_string()), tree)
            }
            Err(problem) => {
                notes.push(format!("answered with {}: {}", problem.status(), problem.detail));
                let tree = json!({ "refuse": problem.to_json() });
                (format!("refuse({})", problem.code), None, tree)
            }
        };
        Self {
            service: service.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            verb,
            scope,
            plan,
            kind,
            tree,
            notes,
        }
    }
}

/// A request of a user that is asked about instead of sent.
#[derive(Debug, Clone, Copy)]
pub struct ExplainAsk<'a> {
    pub service: &'a str,
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    pub content_type: Option<&'a str>,
    /// As in the header; empty for a request without one.
    pub scope: &'a str,
}

/// What a user's request would become at this site.
pub fn explain_request(shared: &Shared, ask: &ExplainAsk<'_>) -> Result<Explained, Problem> {
    let world = shared.world();
    let Some((service, _)) = world.services.get_key_value(ask.service) else {
        let mut known: Vec<&str> = world.services.keys().map(ServiceName::as_str).collect();
        known.sort_unstable();
        let detail = format!(
            "there is no service `{}` here; there is {}",
            ask.service,
            known.join(", ")
        );
        return Err(Problem::new(Code::UnknownService, detail));
    };
    let view = WorldView::new(&world, shared.distances.load_full());
    let scope = match ask.scope.trim() {
        "" => None,
        text => {
            let limits = ParseLimits {
                max_bytes: world.limits.scope_max_bytes,
                max_depth: world.limits.scope_max_depth,
            };
            Some(read(text, &limits, Some(&view)).map_err(|diagnostics| diagnostics.to_problem(text))?)
        }
    };
    let (path, query) = match ask.path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (ask.path, None),
    };
    let method = Method::from_bytes(ask.method.as_bytes())
        .map_err(|_| Problem::new(Code::BadRequest, format!("`{}` is no method", ask.method)))?;
    let mut headers = HeaderMap::new();
    if let Some(value) = ask.content_type.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(CONTENT_TYPE, value);
    }
    let asking = Asking {
        world: &world,
        shared,
        service,
        method: &method,
        path,
        query,
        headers: &headers,
        caller: Party::User,
        is_named: false,
    };
    let mut notes = Vec::new();
    let rule = world.profile.context_free(service, ask.method, path);
    let wanting = Wanting {
        context_free: rule.map(why_context_free),
        ..Wanting::scope(&asking, scope.as_ref())
    };
    let plan = head::check_method(&method)
        .and_then(|()| check_path(&asking))
        .and_then(|()| asking.decide(&wanting, &mut notes).plan);
    let verb = wanting.verb;
    let scope = scope.map(|scope| scope.to_string());
    Ok(Explained::new(
        service,
        (ask.method, ask.path),
        verb,
        scope,
        plan,
        notes,
    ))
}
