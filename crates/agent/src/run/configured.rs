//! What this site is: its credentials at its own services, whom it believes about their callers, its slot.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use cheops_node::Access;
use cheops_types::{ServiceName, SiteName, Slot};
use tracing::warn;

use crate::config::{Config, Vouch};

/// What a file with a credential has at most.
const CREDENTIAL_MAX_BYTES: usize = 64 * 1024;

/// As configured, with the contents of the files.
pub(super) struct Configured {
    services: BTreeMap<ServiceName, Service>,
    /// Sites whose word about callers counts nothing here.
    disbelieved: Vec<SiteName>,
    /// Headers of callers that do not leave for a site.
    withheld: BTreeMap<SiteName, Arc<[String]>>,
    /// What this site draws meta-ids from, of a range of integers.
    pub(super) slot: Slot,
}

#[derive(Clone)]
struct Service {
    path: Option<PathBuf>,
    access: Access,
}

impl Configured {
    pub(super) fn of(config: &Config) -> anyhow::Result<Self> {
        let mut services = BTreeMap::new();
        for (name, service) in &config.services {
            let credential = match &service.credential {
                Some(path) => {
                    warn_if_open(path);
                    Some(read(path)?)
                }
                None => None,
            };
            let access = Access {
                is_offered: service.peers,
                credential,
                vouch: service.vouch.iter().cloned().collect(),
            };
            let path = service.credential.clone();
            services.insert(name.clone(), Service { path, access });
        }
        let disbelieved = config.sites.iter();
        let disbelieved = disbelieved.filter(|(_, site)| site.vouch == Vouch::None);
        Ok(Self {
            services,
            disbelieved: disbelieved.map(|(name, _)| name.clone()).collect(),
            withheld: config
                .sites
                .iter()
                .map(|(name, site)| (name.clone(), site.withhold.iter().cloned().collect()))
                .collect(),
            slot: config.slot,
        })
    }

    pub(super) fn access(&self, service: &ServiceName) -> Access {
        let known = self.services.get(service);
        known.map_or_else(Access::default, |service| service.access.clone())
    }

    pub(super) fn believes(&self, site: &SiteName) -> bool {
        !self.disbelieved.contains(site)
    }

    pub(super) fn withheld(&self, site: &SiteName) -> Arc<[String]> {
        self.withheld.get(site).cloned().unwrap_or_default()
    }

    /// The same with what the files hold now; none where that is nothing new. One that cannot be read at the
    /// moment counts as it was.
    pub(super) fn refreshed(&self) -> Option<Self> {
        let mut is_new = false;
        let mut services = self.services.clone();
        for service in services.values_mut() {
            let Some(path) = &service.path else { continue };
            match read(path) {
                Ok(credential) if service.access.credential.as_ref() != Some(&credential) => {
                    service.access.credential = Some(credential);
                    is_new = true;
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(error = %format!("{error:#}"), "the site's own credential stays what it was");
                }
            }
        }
        is_new.then(|| Self {
            services,
            disbelieved: self.disbelieved.clone(),
            withheld: self.withheld.clone(),
            slot: self.slot,
        })
    }
}

fn read(path: &Path) -> anyhow::Result<Arc<[u8]>> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    anyhow::ensure!(!bytes.trim_ascii().is_empty(), "{shown} is empty");
    anyhow::ensure!(
        bytes.len() <= CREDENTIAL_MAX_BYTES,
        "{shown} is too long for a credential"
    );
    Ok(bytes.into())
}

fn warn_if_open(path: &Path) {
    const OTHERS: u32 = 0o077;
    if fs::metadata(path).is_ok_and(|found| found.mode() & OTHERS != 0) {
        let shown = path.display();
        warn!(file = %shown, "others than its owner may use the site's credential: chmod 600 {shown}");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const FILE: &str = r#"
site = "here"
data_dir = "d"
[services.A]
public = "127.0.0.1:0"
upstream = "http://127.0.0.1:1"
credential = "a.token"
vouch = ["sys:masters"]
[services.B]
public = "127.0.0.1:0"
upstream = "http://127.0.0.1:1"
[peer]
listen = "127.0.0.1:0"
ca = "c"
cert = "c"
key = "c"
[sites.far]
address = "127.0.0.1:1"
vouch = "none"
[sites.near]
address = "127.0.0.1:1"
"#;

    #[test]
    fn a_credential_is_followed_while_the_agent_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (path, token) = (dir.path().join("cheops.toml"), dir.path().join("a.token"));
        fs::write(&path, FILE).unwrap();
        let config = Config::read(&path).unwrap();
        assert!(Configured::of(&config).is_err(), "the file is not there yet");
        fs::write(&token, "one").unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
        let configured = Configured::of(&config).unwrap();
        let name = |name| ServiceName::new(name).unwrap();
        let access = configured.access(&name("A"));
        assert_eq!(access.credential.as_deref(), Some(&b"one"[..]));
        assert_eq!(*access.vouch, ["sys:masters"]);
        assert!(configured.access(&name("B")).credential.is_none());
        assert!(!configured.believes(&SiteName::new("far").unwrap()));
        assert!(configured.believes(&SiteName::new("near").unwrap()));

        assert!(configured.refreshed().is_none());
        fs::write(&token, "").unwrap();
        assert!(configured.refreshed().is_none(), "half written");
        fs::write(&token, "two").unwrap();
        let fresh = configured.refreshed().unwrap();
        assert_eq!(fresh.access(&name("A")).credential.as_deref(), Some(&b"two"[..]));
    }
}
