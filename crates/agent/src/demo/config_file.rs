//! The configuration file of one site of the demo.

use std::{collections::BTreeMap, net::SocketAddr, path::Path, time::Duration};

use cheops_types::SiteName;
use serde::Serialize;

use crate::demo::layout::{ServiceAddresses, SiteAddresses};

#[derive(Debug, Serialize)]
struct File<'a> {
    site: &'a SiteName,
    data_dir: &'a Path,
    workers: usize,
    glue: &'static str,
    limits: Limits,
    peer: Peer,
    services: BTreeMap<&'static str, Service>,
    sites: BTreeMap<&'a SiteName, Site>,
}

/// Shorter than usual, so that nobody has to wait long to see what a cut does.
#[derive(Debug, Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the configuration"
)]
struct Limits {
    peer_connect_timeout_ms: u64,
    peer_timeout_ms: u64,
    heartbeat_interval_ms: u64,
    drain_timeout_ms: u64,
}

#[derive(Debug, Serialize)]
struct Peer {
    listen: SocketAddr,
    ca: &'static str,
    cert: String,
    key: String,
}

#[derive(Debug, Serialize)]
struct Service {
    public: SocketAddr,
    internal: SocketAddr,
    upstream: String,
}

#[derive(Debug, Serialize)]
struct Site {
    address: SocketAddr,
}

/// The file's text. `links`: where the link to each other site begins; `round_trip_max`: the
/// longest of the demo. The certificates and the key are expected beside the file.
pub(super) fn render(
    site: &SiteName,
    data_dir: &Path,
    addresses: &SiteAddresses,
    links: &BTreeMap<&SiteName, SocketAddr>,
    round_trip_max: Duration,
) -> anyhow::Result<String> {
    let far_ms = 4 * round_trip_max.as_millis() as u64;
    let file = File {
        site,
        data_dir,
        workers: 1,
        glue: "example",
        limits: Limits {
            peer_connect_timeout_ms: 1_000 + far_ms,
            peer_timeout_ms: 2_000 + far_ms,
            heartbeat_interval_ms: 500 + far_ms,
            drain_timeout_ms: 2_000,
        },
        peer: Peer {
            listen: addresses.peer,
            ca: "ca.pem",
            cert: format!("{site}.pem"),
            key: format!("{site}.key"),
        },
        services: [("A", addresses.a), ("B", addresses.b)]
            .map(|(name, addresses)| (name, service(addresses)))
            .into(),
        sites: links
            .iter()
            .map(|(name, address)| (*name, Site { address: *address }))
            .collect(),
    };
    Ok(toml::to_string(&file)?)
}

fn service(addresses: ServiceAddresses) -> Service {
    Service {
        public: addresses.public,
        internal: addresses.internal,
        upstream: format!("http://{}", addresses.upstream),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ca, config::Config, demo::layout::Layout};

    #[test]
    fn an_agent_accepts_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let site = SiteName::new("site1").unwrap();
        let other = SiteName::new("site2").unwrap();
        let layout = Layout::choose(2).unwrap();
        let site_dir = dir.path().join("site1");
        ca::init(dir.path()).unwrap();
        ca::issue(dir.path(), &site, &site_dir).unwrap();
        let links = BTreeMap::from([(&other, layout.links[0].listener.local_addr().unwrap())]);
        let text = render(
            &site,
            &site_dir.join("data"),
            &layout.sites[0],
            &links,
            Duration::from_millis(40),
        );
        let path = site_dir.join("cheops.toml");
        std::fs::write(&path, text.unwrap()).unwrap();
        let config = Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.site, site);
        assert_eq!(config.services.len(), 2);
        assert_eq!(config.limits.peer_timeout_ms, 2_160);
    }
}
