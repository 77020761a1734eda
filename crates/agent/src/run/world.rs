//! From a configuration to what the data plane knows.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use anyhow::Context as _;
use cheops_glue::Profile;
use cheops_net::{MeshTls, UpstreamTarget};
use cheops_proxy::{ServiceEntry, World};
use cheops_types::SiteName;

use crate::config::{Config, GlueChoice, Upstream, UpstreamHttp};

/// With more peers than this, connections to them are opened on demand.
const WARM_PEERS_MAX: usize = 32;

/// Makes worlds. It remembers TLS towards services, so that an unchanged service keeps its
/// connections over a reload.
#[derive(Default)]
pub(super) struct WorldMaker {
    upstream_tls: HashMap<Vec<u8>, Arc<rustls::ClientConfig>>,
}

impl WorldMaker {
    pub(super) fn make(&mut self, config: &Config) -> anyhow::Result<World> {
        let mut services = HashMap::new();
        for (name, service) in &config.services {
            let target = UpstreamTarget {
                host: service.upstream.host.clone(),
                port: service.upstream.port,
                tls: self.upstream_tls(&service.upstream)?,
                http: match service.upstream_http {
                    UpstreamHttp::Auto => cheops_net::UpstreamHttp::Auto,
                    UpstreamHttp::One => cheops_net::UpstreamHttp::Http1,
                    UpstreamHttp::Two => cheops_net::UpstreamHttp::Http2,
                },
            };
            services.insert(
                name.clone(),
                Arc::new(ServiceEntry {
                    name: name.clone(),
                    target,
                }),
            );
        }
        let mut sites: Vec<SiteName> = config
            .sites
            .keys()
            .cloned()
            .chain([config.site.clone()])
            .collect();
        sites.sort_unstable();
        Ok(World {
            site: config.site.clone(),
            sites,
            services,
            peers: config
                .sites
                .iter()
                .map(|(name, site)| (name.clone(), site.address.clone()))
                .collect(),
            mesh: mesh(config)?,
            profile: Arc::new(profile(&config.glue)?),
            limits: config.limits.clone(),
            keep_peers_warm: config.sites.len() <= WARM_PEERS_MAX,
        })
    }

    fn upstream_tls(&mut self, upstream: &Upstream) -> anyhow::Result<Option<Arc<rustls::ClientConfig>>> {
        let Some(path) = upstream.ca.as_deref().filter(|_| upstream.tls) else {
            return Ok(None);
        };
        let pem = read(path)?;
        if let Some(tls) = self.upstream_tls.get(&pem) {
            return Ok(Some(tls.clone()));
        }
        let tls = cheops_net::client_tls(&pem).with_context(|| path.display().to_string())?;
        self.upstream_tls.insert(pem, tls.clone());
        Ok(Some(tls))
    }
}

/// This site's identity, where it has peers.
pub(super) fn mesh(config: &Config) -> anyhow::Result<Option<MeshTls>> {
    let Some(peer) = &config.peer else { return Ok(None) };
    let (ca, cert, key) = (read(&peer.ca)?, read(&peer.cert)?, read(&peer.key)?);
    let tls =
        MeshTls::new(&config.site, &ca, &cert, &key).with_context(|| peer.cert.display().to_string())?;
    Ok(Some(tls))
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn profile(glue: &GlueChoice) -> anyhow::Result<Profile> {
    match glue {
        GlueChoice::Plain => Ok(Profile::plain()),
        GlueChoice::Example => Profile::builtin("example").context("the built-in glue is missing"),
        GlueChoice::File(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Profile::parse(&path.display().to_string(), &text)?)
        }
    }
}
