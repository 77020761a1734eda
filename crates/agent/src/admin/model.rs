//! The API's JSON, shared by server and client.

use std::net::SocketAddr;

use cheops_types::{Limit, Limits, ServiceName, SiteName};
use serde::{Deserialize, Serialize};

/// `GET /v1/status`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) site: SiteName,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_s: u64,
    /// How often the configuration was put in force; 1 after the start.
    pub(crate) generation: u64,
    pub(crate) workers: usize,
}

/// `GET /v1/sites`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SitesAnswer {
    pub(crate) sites: Vec<SiteStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteStatus {
    pub(crate) name: SiteName,
    /// Whether it is this site.
    pub(crate) here: bool,
    pub(crate) up: bool,
    /// The measured round trip; none before the first heartbeat was answered.
    pub(crate) round_trip_us: Option<u64>,
    pub(crate) address: Option<String>,
    pub(crate) last_error: Option<String>,
}

/// `GET /v1/services`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServicesAnswer {
    pub(crate) services: Vec<ServiceStatus>,
}

/// Addresses are the ones in use: port 0 of the configuration is the port that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceStatus {
    pub(crate) name: ServiceName,
    pub(crate) public: Option<SocketAddr>,
    pub(crate) internal: Option<SocketAddr>,
    /// One address for users and services.
    pub(crate) shared: Option<SocketAddr>,
    pub(crate) upstream: String,
}

/// `GET /v1/limits`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitsAnswer {
    pub(crate) limits: Vec<LimitStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitStatus {
    pub(crate) name: String,
    pub(crate) value: u64,
    /// How often it was hit since the process started.
    pub(crate) hits: u64,
    /// What a caller gets when it is hit.
    pub(crate) answer: String,
}

/// `POST /v1/explain`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainRequest {
    pub(crate) service: String,
    #[serde(default = "get")]
    pub(crate) method: String,
    #[serde(default = "root")]
    pub(crate) path: String,
    /// Of a body that is not sent: patches differ by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    /// As in the header; empty for a request without one.
    #[serde(default)]
    pub(crate) scope: String,
}

/// `POST /v1/reload`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReloadAnswer {
    pub(crate) generation: u64,
    /// What is different now, one sentence each; empty when nothing is.
    pub(crate) changes: Vec<String>,
}

impl LimitsAnswer {
    pub(super) fn of(limits: &Limits) -> Self {
        let limits = Limit::ALL
            .iter()
            .map(|limit| LimitStatus {
                name: limit.name().to_owned(),
                value: limit.value(limits),
                hits: limit.hits(),
                answer: limit.answer().to_owned(),
            })
            .collect();
        Self { limits }
    }
}

fn get() -> String {
    "GET".to_owned()
}

fn root() -> String {
    "/".to_owned()
}
