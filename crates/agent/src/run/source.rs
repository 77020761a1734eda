//! The running agent as the admin API sees it.

use std::{fmt::Write as _, future::Future, pin::Pin, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use cheops_glue::{Effect, Profile};
use cheops_mesh::Pulses;
use cheops_node::Operator;
use cheops_proxy::{Counted, Role, Shared, WorldView};
use cheops_scope::{ParseLimits, read};
use cheops_types::{Code, Consistency, Health, Limits, Plan, Problem, ServiceName};
use tokio::sync::{mpsc, oneshot};

use super::{listeners::Addresses, reload::Reload};
use crate::{
    admin::{ExplainRequest, Explanation, ReloadAnswer, ServiceStatus, SiteStatus, Source, Status},
    config::Config,
};

pub(super) struct Agent {
    shared: Arc<Shared>,
    config: Arc<ArcSwap<Config>>,
    pulses: Pulses,
    addresses: Addresses,
    workers: usize,
    started: Instant,
    operator: Operator,
    reloads: mpsc::Sender<Reload>,
}

impl Agent {
    pub(super) fn new(
        shared: Arc<Shared>,
        config: Arc<ArcSwap<Config>>,
        pulses: Pulses,
        addresses: Addresses,
        workers: usize,
        operator: Operator,
        reloads: mpsc::Sender<Reload>,
    ) -> Self {
        Self {
            shared,
            config,
            pulses,
            addresses,
            workers,
            started: Instant::now(),
            operator,
            reloads,
        }
    }
}

impl Source for Agent {
    fn status(&self) -> Status {
        Status {
            site: self.shared.world().site.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs(),
            generation: self.shared.generation(),
            workers: self.workers,
        }
    }

    fn sites(&self) -> Vec<SiteStatus> {
        let world = self.shared.world();
        let distances = self.shared.distances.load();
        let here = SiteStatus {
            name: world.site.clone(),
            here: true,
            up: true,
            round_trip_us: Some(0),
            address: None,
            last_error: None,
        };
        let others = world
            .sites
            .iter()
            .filter(|site| **site != world.site)
            .map(|site| SiteStatus {
                name: site.clone(),
                here: false,
                up: distances.health(site) == Health::Up,
                round_trip_us: distances.round_trip_us(&world.site, site).map(u64::from),
                address: world.peers.get(site).cloned(),
                last_error: self.pulses.last_error(site),
            });
        std::iter::once(here).chain(others).collect()
    }

    fn services(&self) -> Vec<ServiceStatus> {
        let config = self.config.load();
        let status = config.services.iter().map(|(name, service)| {
            let upstream = &service.upstream;
            let scheme = if upstream.tls { "https" } else { "http" };
            ServiceStatus {
                name: name.clone(),
                public: self.addresses.of(name, Role::Public),
                internal: self.addresses.of(name, Role::Internal),
                shared: self.addresses.of(name, Role::Shared),
                upstream: format!("{scheme}://{}:{}", upstream.host, upstream.port),
            }
        });
        status.collect()
    }

    fn limits(&self) -> Limits {
        self.shared.world().limits.clone()
    }

    fn metrics(&self) -> String {
        let counters = self.shared.counters();
        let mut text = String::new();
        for counted in Counted::ALL {
            let total: u64 = counters.iter().map(|core| core.get(*counted)).sum();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "# TYPE cheops_{0} counter\ncheops_{0} {total}",
                counted.name()
            );
        }
        let _ = writeln!(
            text,
            "# TYPE cheops_workflows gauge\ncheops_workflows {}",
            self.shared.correlation.len()
        );
        text.push_str("# TYPE cheops_site_up gauge\n");
        for site in self.sites() {
            let _ = writeln!(
                text,
                "cheops_site_up{{site=\"{}\"}} {}",
                site.name,
                u8::from(site.up)
            );
        }
        text
    }

    fn explain(&self, request: &ExplainRequest) -> Result<Explanation, Problem> {
        let world = self.shared.world();
        let Some((service, _)) = world.services.get_key_value(request.service.as_str()) else {
            let mut known: Vec<&str> = world.services.keys().map(ServiceName::as_str).collect();
            known.sort_unstable();
            let detail = format!(
                "there is no service `{}` here; there is {}",
                request.service,
                known.join(", ")
            );
            return Err(Problem::new(Code::UnknownService, detail));
        };
        let view = WorldView::new(&world, self.shared.distances.load_full());
        let scope = match request.scope.trim() {
            "" => None,
            text => {
                let limits = ParseLimits {
                    max_bytes: world.limits.scope_max_bytes,
                    max_depth: world.limits.scope_max_depth,
                };
                Some(read(text, &limits, Some(&view)).map_err(|diagnostics| diagnostics.to_problem(text))?)
            }
        };
        let (path, query) = match request.path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&*request.path, None),
        };
        let identity = world.profile.identify(service, &request.method, path);
        let mut explained = cheops_plan::explain(service, identity.verb, scope.as_ref(), &view)
            .map_err(|refusal| refusal.to_problem())?;
        if let Some(why) = why_one_site(&world.profile, service, &request.method, path, query) {
            explained = explained.at_one_site(why, &view);
        }
        let mut notes = explained.reasons;
        let can_be_watched = identity.list.is_some_and(|list| list.watch.is_some());
        if matches!(explained.plan, Plan::Gather(_))
            && world.profile.is_stream(service, path, query)
            && !can_be_watched
        {
            notes.push(
                "the answer does not end and cannot be gathered: the request is answered with 501 not_available"
                    .to_owned(),
            );
        }
        let strong = Consistency::Strong;
        if matches!(&explained.plan, Plan::Replicate { consistency, .. } if *consistency == strong) {
            notes.push(
                "this version cannot execute that plan: the request is answered with 501 not_available"
                    .to_owned(),
            );
        }
        Ok(Explanation {
            service: service.clone(),
            method: request.method.clone(),
            path: request.path.clone(),
            verb: identity.verb,
            scope: explained.scope,
            plan: explained.plan.to_string(),
            tree: serde_json::to_value(&explained.plan).unwrap_or_default(),
            notes,
        })
    }

    fn operator(&self) -> Option<Operator> {
        Some(self.operator.clone())
    }

    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<ReloadAnswer, Problem>> + Send + '_>> {
        Box::pin(async {
            let stopping = || Problem::new(Code::ShuttingDown, "the agent is stopping");
            let (answer, result) = oneshot::channel();
            self.reloads
                .send(Reload { answer })
                .await
                .map_err(|_| stopping())?;
            result.await.map_err(|_| stopping())?
        })
    }
}

/// Why a request needs no more than one site, whatever its scope.
fn why_one_site(
    profile: &Profile,
    service: &ServiceName,
    method: &str,
    path: &str,
    query: Option<&str>,
) -> Option<&'static str> {
    if let Some(rule) = profile.context_free(service, method, path) {
        return Some(if rule.workflow.is_some() {
            "it belongs to no workflow but the one whose credential it is about"
        } else {
            "it belongs to no workflow"
        });
    }
    if profile.is_effect_free(service, method, path) {
        return Some("it changes nothing");
    }
    let address = profile.address(service, path)?;
    if address.effect(method, None) == Effect::Read {
        return None;
    }
    if address.rules().is_effect_free(query) {
        return Some("it changes nothing");
    }
    (address.effect(method, None) == Effect::Free).then_some("it is for one replica and is not recorded")
}
