//! The running agent as the admin API sees it.

use std::{fmt::Write as _, future::Future, pin::Pin, sync::Arc, time::Instant};

use arc_swap::ArcSwap;
use cheops_mesh::Pulses;
use cheops_node::Operator;
use cheops_proxy::{Counted, ExplainAsk, Role, Shared, explain_request};
use cheops_types::{Code, Health, Limits, Problem};
use tokio::sync::{mpsc, oneshot};

use super::{listeners::Addresses, reload::Reload};
use crate::{
    admin::{ExplainRequest, Explained, ReloadAnswer, ServiceStatus, SiteStatus, Source, Status},
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
            "# TYPE cheops_scopes gauge\ncheops_scopes {}",
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

    fn explain(&self, request: &ExplainRequest) -> Result<Explained, Problem> {
        let ask = ExplainAsk {
            service: &request.service,
            method: &request.method,
            path: &request.path,
            content_type: request.content_type.as_deref(),
            scope: &request.scope,
        };
        explain_request(&self.shared, &ask)
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
