//! From a configuration to what the data plane knows.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use anyhow::Context as _;
use cheops_glue::Profile;
use cheops_net::{MeshTls, Pair, UpstreamTarget, client_tls};
use cheops_proxy::{ServiceEntry, World};
use cheops_types::SiteName;
use http::HeaderName;

use crate::{
    builtin::BuiltIn,
    config::{Config, GlueChoice, Upstream, UpstreamHttp, UpstreamPair, Vouch},
};

/// With more peers than this, connections to them are opened on demand.
const WARM_PEERS_MAX: usize = 32;

/// Makes worlds. It remembers TLS towards services, so that an unchanged service keeps its
/// connections over a reload.
#[derive(Default)]
pub(super) struct WorldMaker {
    upstream_tls: UpstreamTls,
}

/// TLS towards services by the contents of the CA, certificate and key files that it is made of.
type UpstreamTls = HashMap<Vec<Vec<u8>>, Arc<rustls::ClientConfig>>;

impl WorldMaker {
    pub(super) fn make(&mut self, config: &Config) -> anyhow::Result<World> {
        let mut services = HashMap::new();
        let mut tls = UpstreamTls::default();
        for (name, service) in &config.services {
            let upstream = &service.upstream;
            let target = UpstreamTarget {
                host: upstream.host.clone(),
                port: upstream.port,
                tls: self.upstream_tls(upstream, None, &mut tls)?,
                http: match service.upstream_http {
                    UpstreamHttp::Auto => cheops_net::UpstreamHttp::Auto,
                    UpstreamHttp::One => cheops_net::UpstreamHttp::Http1,
                    UpstreamHttp::Two => cheops_net::UpstreamHttp::Http2,
                },
            };
            let vouched = match &upstream.pair {
                Some(pair) => Some(UpstreamTarget {
                    tls: self.upstream_tls(upstream, Some(pair), &mut tls)?,
                    ..target.clone()
                }),
                None => None,
            };
            services.insert(
                name.clone(),
                Arc::new(ServiceEntry {
                    name: name.clone(),
                    target,
                    vouched,
                    is_offered: service.peers,
                    vouch: service.vouch.clone(),
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
        let world = World {
            site: config.site.clone(),
            sites,
            services,
            peers: config
                .sites
                .iter()
                .map(|(name, site)| (name.clone(), site.address.clone()))
                .collect(),
            unbelieved: config
                .sites
                .iter()
                .filter(|(_, site)| site.vouch == Vouch::None)
                .map(|(name, _)| name.clone())
                .collect(),
            withheld: withheld(config)?,
            hedged_freely: config
                .sites
                .iter()
                .filter(|(_, site)| site.hedge_credentials)
                .map(|(name, _)| name.clone())
                .collect(),
            mesh: mesh(config)?,
            profile: Arc::new(profile(&config.glue)?),
            limits: config.limits.clone(),
            keep_peers_warm: config.sites.len() <= WARM_PEERS_MAX,
        };
        self.upstream_tls = tls;
        Ok(world)
    }

    fn upstream_tls(
        &self,
        upstream: &Upstream,
        pair: Option<&UpstreamPair>,
        used: &mut UpstreamTls,
    ) -> anyhow::Result<Option<Arc<rustls::ClientConfig>>> {
        let Some(path) = upstream.ca.as_deref().filter(|_| upstream.tls) else {
            return Ok(None);
        };
        let mut files = vec![read(path)?];
        if let Some(pair) = pair {
            files.extend([read(&pair.cert)?, read(&pair.key)?]);
        }
        let known = self.upstream_tls.get(&files).or_else(|| used.get(&files));
        let tls = match (known, files.as_slice()) {
            (Some(known), _) => Ok(known.clone()),
            (None, [ca_pem, cert_pem, key_pem]) => client_tls(ca_pem, Some(Pair { cert_pem, key_pem })),
            (None, files) => client_tls(&files[0], None),
        };
        let tls = tls.with_context(|| path.display().to_string())?;
        used.insert(files, tls.clone());
        Ok(Some(tls))
    }
}

/// The headers that do not leave, for each site that has any.
fn withheld(config: &Config) -> anyhow::Result<HashMap<SiteName, Vec<HeaderName>>> {
    let mut withheld = HashMap::new();
    for (name, site) in config.sites.iter().filter(|(_, site)| !site.withhold.is_empty()) {
        let headers = site.withhold.iter().map(HeaderName::try_from);
        withheld.insert(name.clone(), headers.collect::<Result<_, _>>()?);
    }
    Ok(withheld)
}

/// This site's identity, where it has peers.
pub(super) fn mesh(config: &Config) -> anyhow::Result<Option<MeshTls>> {
    let Some(peer) = &config.peer else { return Ok(None) };
    let (ca, cert, key) = (read(&peer.ca)?, read(&peer.cert)?, read(&peer.key)?);
    let tls =
        MeshTls::new(&config.site, &ca, &cert, &key).with_context(|| peer.cert.display().to_string())?;
    Ok(Some(tls.revoking(peer.revoked.clone())))
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn profile(glue: &GlueChoice) -> anyhow::Result<Profile> {
    match glue {
        GlueChoice::Plain => Ok(Profile::plain()),
        GlueChoice::BuiltIn(name) => {
            let built_in = BuiltIn::find(name).context("the built-in glue is missing")?;
            Ok(built_in.profile())
        }
        GlueChoice::File(path) => {
            let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Profile::parse(&path.display().to_string(), &text)?)
        }
    }
}
