//! Where kubectl would go and as whom, and the file that sends it elsewhere.
//!
//! The file stands in front of the user's own ones and names a cluster and a context only: the user's entry,
//! with its tokens, helpers and relative paths, is read from where it always was, and no secret is written.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::words::Options;
use crate::cli::BadInput;

/// `kubectl config view --raw --flatten -o json`: all files as one, certificates and keys within.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Kubeconfig {
    #[serde(default)]
    clusters: Option<Vec<NamedCluster>>,
    #[serde(default)]
    contexts: Option<Vec<NamedContext>>,
    #[serde(default)]
    users: Option<Vec<NamedUser>>,
    #[serde(default, rename = "current-context")]
    current_context: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority_data: String,
    insecure_skip_tls_verify: bool,
    tls_server_name: String,
    proxy_url: String,
    /// What concerns the connection to any server, such as `disable-compression`.
    #[serde(flatten)]
    other: HashMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
    namespace: String,
}

#[derive(Debug, Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: User,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}

/// The server that kubectl would ask, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    /// As kubectl knows it, without a `/` at its end.
    pub(super) url: String,
    pub(super) tls: bool,
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// What stands before every path.
    pub(super) prefix: String,
    /// PEM; none: the system's.
    pub(super) authorities: Option<Vec<u8>>,
    pub(super) is_verified: bool,
    /// The name that its certificate must have, where that is not the host.
    pub(super) tls_name: Option<String>,
    pub(super) proxy: Option<String>,
    /// The caller's certificate and key, both PEM.
    pub(super) identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// What kubectl would use: the server, and the context with which it would ask it.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) server: Server,
    context: Context,
    cluster: Cluster,
}

impl Kubeconfig {
    pub(super) fn parse(text: &[u8]) -> anyhow::Result<Self> {
        Ok(serde_json::from_slice(text)?)
    }

    /// What kubectl makes of these files and of its options.
    pub(super) fn resolve(self, options: &Options) -> anyhow::Result<Resolved> {
        let name = options.context.as_deref().unwrap_or(&self.current_context);
        let mut contexts = self.contexts.unwrap_or_default().into_iter();
        let mut context = match contexts.find(|context| context.name == name) {
            Some(found) => found.context,
            None if options.context.is_some() => {
                return Err(BadInput(format!("there is no context `{name}` in the kubeconfig")).into());
            }
            None => Context::default(),
        };
        if let Some(user) = &options.user {
            context.user.clone_from(user);
        }
        let name = options.cluster.as_deref().unwrap_or(&context.cluster);
        let mut clusters = self.clusters.unwrap_or_default().into_iter();
        let mut cluster = match clusters.find(|cluster| cluster.name == name) {
            Some(found) => found.cluster,
            None if options.cluster.is_some() => {
                return Err(BadInput(format!("there is no cluster `{name}` in the kubeconfig")).into());
            }
            None => Cluster::default(),
        };
        if let Some(server) = &options.server {
            cluster.server.clone_from(server);
        }
        let mut users = self.users.unwrap_or_default().into_iter();
        let user = users.find(|user| user.name == context.user);
        let user = user.map(|found| found.user).unwrap_or_default();
        let server = server(&cluster, &user, options)?;
        Ok(Resolved {
            server,
            context,
            cluster,
        })
    }
}

impl Resolved {
    /// The file to put before the others: a context that differs in its server alone. `authority` is the PEM
    /// certificate of that server.
    pub(super) fn layer(&self, name: &str, url: &str, authority: Option<&str>) -> Value {
        let mut cluster = json!({ "server": url });
        for (key, value) in &self.cluster.other {
            cluster[key] = value.clone();
        }
        if let Some(pem) = authority {
            cluster["certificate-authority-data"] = BASE64_STANDARD.encode(pem).into();
        }
        let mut context = json!({ "cluster": name });
        for (key, value) in [
            ("user", &self.context.user),
            ("namespace", &self.context.namespace),
        ] {
            if !value.is_empty() {
                context[key] = value.as_str().into();
            }
        }
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": name, "cluster": cluster }],
            "contexts": [{ "name": name, "context": context }],
            "current-context": name,
        })
    }
}

fn server(cluster: &Cluster, user: &User, options: &Options) -> anyhow::Result<Server> {
    if cluster.server.is_empty() {
        let fix = "point kubectl at an agent with `--server`, `--context` or `--kubeconfig`";
        return Err(BadInput(format!("the kubeconfig names no server: {fix}")).into());
    }
    // kubectl takes a server without a scheme for http.
    let url = match cluster.server.trim_end_matches('/') {
        url if url.contains("://") => url.to_owned(),
        host => format!("http://{host}"),
    };
    let wrong = || BadInput(format!("`{}` is no server's URL", cluster.server));
    let uri: http::Uri = url.parse().map_err(|_| wrong())?;
    let tls = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong().into()),
    };
    let host = uri.host().ok_or_else(wrong)?;
    let authorities = match &options.certificate_authority {
        Some(path) => Some(read(path)?),
        None => decoded(&cluster.certificate_authority_data, "certificate-authority-data")?,
    };
    // An authority that is named on the command line is asked, whatever the file says.
    let skips = options
        .insecure
        .unwrap_or(cluster.insecure_skip_tls_verify && options.certificate_authority.is_none());
    let tls_name = match (&options.tls_server_name, &options.server) {
        (Some(name), _) => Some(name.clone()),
        // The name in the file is another server's.
        (None, Some(_)) => None,
        (None, None) => Some(cluster.tls_server_name.clone()),
    };
    let from_file = |path: &Option<PathBuf>, data: &str, what| match path {
        Some(path) => read(path).map(Some),
        None => decoded(data, what),
    };
    let certificate = from_file(
        &options.client_certificate,
        &user.client_certificate_data,
        "client-certificate-data",
    )?;
    let key = from_file(&options.client_key, &user.client_key_data, "client-key-data")?;
    Ok(Server {
        tls,
        host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
        prefix: uri.path().trim_end_matches('/').to_owned(),
        authorities: authorities.filter(|_| !skips),
        is_verified: !skips,
        tls_name: tls_name.filter(|name| !name.is_empty()),
        proxy: Some(cluster.proxy_url.clone()).filter(|url| !url.is_empty()),
        // Without TLS kubectl proves nothing either.
        identity: certificate.zip(key).filter(|_| tls),
        url,
    })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).map_err(|error| BadInput(format!("cannot read {}: {error}", path.display())).into())
}

fn decoded(data: &str, what: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if data.is_empty() {
        return Ok(None);
    }
    let bytes = BASE64_STANDARD
        .decode(data)
        .map_err(|_| BadInput(format!("`{what}` of the kubeconfig is not base64")))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
