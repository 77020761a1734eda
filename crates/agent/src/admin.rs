//! The admin API: HTTP/1.1 and JSON on a Unix socket in the data directory, for the user that runs
//! the agent alone. `docs/admin-api.md` is its contract.

pub(crate) mod client;
mod cross;
mod groups;
mod metrics;
mod model;
mod replication;
mod server;
mod socket;
#[cfg(test)]
mod tests;

use std::{future::Future, pin::Pin};

use cheops_node::Operator;
pub(crate) use cheops_proxy::Explained;
use cheops_types::{Limits, Problem};

pub(crate) use model::{
    ExplainRequest, LimitsAnswer, ReloadAnswer, ServiceStatus, ServicesAnswer, SiteStatus, SitesAnswer,
    Status,
};
pub(crate) use server::serve;
pub(crate) use socket::AdminSocket;

/// What the API tells and does: the running agent. Everything but `reload` and what the operator does answers
/// from memory.
pub(crate) trait Source: Send + Sync + 'static {
    fn status(&self) -> Status;

    /// This site and the others, this one first.
    fn sites(&self) -> Vec<SiteStatus>;

    fn services(&self) -> Vec<ServiceStatus>;

    fn limits(&self) -> Limits;

    /// Counters of the data plane, in Prometheus' text form; the limits' are added by the API.
    fn metrics(&self) -> String;

    /// The plan of a request, with nothing executed.
    fn explain(&self, request: &ExplainRequest) -> Result<Explained, Problem>;

    /// Replication at this site; none where the agent has none.
    fn operator(&self) -> Option<Operator> {
        None
    }

    /// Reads the configuration again. On an error the old one stays in force, whole.
    fn reload(&self) -> Pin<Box<dyn Future<Output = Result<ReloadAnswer, Problem>> + Send + '_>>;
}
