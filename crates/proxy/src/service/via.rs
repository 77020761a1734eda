//! This agent's place in `Via`.

use cheops_types::{ServiceName, SiteName};
use http::{HeaderValue, Version};

/// This agent's place in `Via`: one per site and service, so that a request that comes back to the
/// same place is a loop.
pub(crate) struct Via {
    pub(crate) name: String,
    http_1_0: HeaderValue,
    http_1_1: HeaderValue,
    http_2: HeaderValue,
}

impl Via {
    pub(crate) fn new(site: &SiteName, service: &ServiceName) -> Self {
        let name = format!("cheops-{site}-{service}");
        let value = |protocol| {
            HeaderValue::try_from(format!("{protocol} {name}")).expect("names are made of header characters")
        };
        Self {
            http_1_0: value("1.0"),
            http_1_1: value("1.1"),
            http_2: value("2"),
            name,
        }
    }

    pub(crate) fn value(&self, version: Version) -> &HeaderValue {
        match version {
            Version::HTTP_2 => &self.http_2,
            Version::HTTP_10 => &self.http_1_0,
            _ => &self.http_1_1,
        }
    }
}
