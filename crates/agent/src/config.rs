//! One TOML file describes one site. Relative paths in it are relative to the file.
//!
//! [`Config::read`] judges the text alone; [`Config::load`] also opens the files that it names, as
//! an agent does when it starts. Both report every error of a file at once.

mod address;
mod error;
mod files;
mod limits;
mod service;
mod site;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod tls;
mod withhold;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use cheops_net::{Network, Revoked};
use cheops_types::{Limit, Limits, ServiceName, SiteName, Slot};
use serde::{Serialize, Serializer};

pub(crate) use error::{ConfigError, ConfigErrors};
pub(crate) use service::{Service, Upstream, UpstreamHttp, UpstreamPair};

/// The file of the admin API's socket in the data directory.
const ADMIN_SOCKET: &str = "admin.sock";

/// What a Unix socket's path may have at most on Linux (`sun_path` less its final zero).
const SOCKET_PATH_MAX_BYTES: usize = 107;

/// The configuration of one site. Every path is absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Config {
    /// The file that was read.
    pub(crate) path: PathBuf,
    pub(crate) site: SiteName,
    /// What this site draws meta-ids from, of a range of integers.
    pub(crate) slot: Slot,
    pub(crate) data_dir: PathBuf,
    /// Per-core runtimes; 0 stands for one per core.
    pub(crate) workers: usize,
    /// Addresses whose budgets do not count.
    #[serde(serialize_with = "as_text", skip_serializing_if = "Vec::is_empty")]
    pub(crate) exempt_clients: Vec<Network>,
    pub(crate) glue: GlueChoice,
    pub(crate) peer: Option<Peer>,
    pub(crate) services: BTreeMap<ServiceName, Service>,
    /// The other sites.
    pub(crate) sites: BTreeMap<SiteName, Site>,
    pub(crate) limits: Limits,
}

fn as_text<S: Serializer>(networks: &[Network], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(networks.iter().map(Network::to_string))
}

/// How the application is described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum GlueChoice {
    /// Ordinary REST conventions.
    Plain,
    File(PathBuf),
    /// One of [`BUILT_IN`](crate::builtin::BUILT_IN), by its name.
    #[serde(untagged)]
    BuiltIn(&'static str),
}

/// The port for the other sites, and who this site is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Peer {
    pub(crate) listen: SocketAddr,
    pub(crate) ca: PathBuf,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// Certificates of the CA that do not count here any more.
    #[serde(skip_serializing_if = "Revoked::is_empty", serialize_with = "show_revoked")]
    pub(crate) revoked: Revoked,
}

fn show_revoked<S: Serializer>(revoked: &Revoked, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(revoked.serials().map(ToString::to_string))
}

/// Another site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Site {
    /// Where its peer port is reached, as `host:port`.
    pub(crate) address: String,
    #[serde(skip_serializing_if = "Vouch::is_default")]
    pub(crate) vouch: Vouch,
    /// Headers of callers that do not leave for it, in lower case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) withhold: Vec<String>,
    /// Whether it may see credentials because another site is late, although the scope does not name it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) hedge_credentials: bool,
}

/// Whose names a site is believed to have verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Vouch {
    /// Those of the application's users, and of the privileged ones that a service's `vouch` names.
    #[default]
    Users,
    None,
}

impl Vouch {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// Reads and judges the file and the certificates, keys and glue that it names.
    pub(crate) fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let (text, site) = read(path)?;
        let errors = files::check(&site);
        if errors.is_empty() {
            Ok(site.config)
        } else {
            Err(ConfigErrors::new(path, text, errors))
        }
    }

    /// Reads and judges the file alone. Commands that only need names or the admin socket use this:
    /// whoever runs them may not be allowed to read the site's key.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigErrors> {
        read(path).map(|(_, site)| site.config)
    }

    pub(crate) fn admin_socket(&self) -> PathBuf {
        self.data_dir.join(ADMIN_SOCKET)
    }
}

/// A complete configuration with a comment on every key. The limits come from their own table, so
/// that none is ever missing here.
pub(crate) fn example() -> String {
    let mut text = include_str!("config/example.toml").to_owned();
    text.push_str(
        "\n# Every bound, its unit in its name, and what a caller gets when it is hit.\n\
         # `cheops limits` shows how often each was.\n[limits]\n",
    );
    let defaults = Limits::default();
    for limit in Limit::ALL {
        let line = format!("{} = {}", limit.name(), limit.value(&defaults));
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line:<40} # {}", limit.answer());
    }
    text
}

fn read(path: &Path) -> Result<(String, site::Located), ConfigErrors> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigErrors::unreadable(path, &error))?;
    match site::read(path, &text) {
        Ok(site) => Ok((text, site)),
        Err(errors) => Err(ConfigErrors::new(path, text, errors)),
    }
}
