//! `[services.<name>]`: where a service's requests arrive and where its application listens.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    ConfigError, address,
    table::{Field, Keys, Table},
    tls::{self, MeshFiles, TlsFiles},
};

pub(super) const KEYS: Keys = &[
    ("public", "\"0.0.0.0:8001\""),
    ("internal", "\"127.0.0.1:9001\""),
    ("listen", "\"0.0.0.0:8001\""),
    ("upstream", "\"http://127.0.0.1:5001\""),
    ("upstream_http", "\"auto\""),
    ("upstream_ca", "\"ca.pem\""),
    ("upstream_cert", "\"proxy.pem\""),
    ("upstream_key", "\"proxy.key\""),
    ("peers", "true"),
    ("vouch", "[\"system:masters\"]"),
    ("credential", "\"service.token\""),
    ("tls", tls::EXAMPLE),
];

/// One service of the application at this site. It has `shared`, or at least one of `public` and
/// `internal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Service {
    /// For users.
    pub(crate) public: Option<SocketAddr>,
    /// For the other services of this site.
    pub(crate) internal: Option<SocketAddr>,
    /// For both.
    pub(crate) shared: Option<SocketAddr>,
    pub(crate) upstream: Upstream,
    pub(crate) upstream_http: UpstreamHttp,
    /// For the listeners.
    pub(crate) tls: Option<TlsFiles>,
    /// Whether other sites may use it.
    pub(crate) peers: bool,
    /// Privileged users and groups that other sites may speak for here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) vouch: Vec<String>,
    /// The file with this site's own credential for the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credential: Option<PathBuf>,
}

/// Where the application's service listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Upstream {
    pub(crate) tls: bool,
    /// A name or an address, without the brackets that URLs put around IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whom to trust; there with `tls`.
    pub(crate) ca: Option<PathBuf>,
    /// By which the service believes this agent about its callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pair: Option<UpstreamPair>,
}

/// The certificate chain and key that this agent shows to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UpstreamPair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// The HTTP version spoken to the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub(crate) enum UpstreamHttp {
    /// Over TLS what the service prefers, else HTTP/1.1; HTTP/2 for gRPC.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    #[serde(rename = "1")]
    One,
    #[serde(rename = "2")]
    Two,
}

/// A service with the places of what must be judged together with the rest of the file.
pub(super) struct Located {
    pub(super) service: Service,
    pub(super) listeners: Vec<Field<SocketAddr>>,
    pub(super) upstream: Field<()>,
    pub(super) upstream_ca: Option<Field<PathBuf>>,
    pub(super) upstream_pair: Option<(Field<PathBuf>, Field<PathBuf>)>,
    pub(super) tls: Option<tls::Located>,
    pub(super) credential: Option<Field<PathBuf>>,
}

/// Reads one service; None when something that it needs is missing or wrong.
pub(super) fn read(
    table: &Table<'_>,
    dir: &Path,
    mesh_tls: Option<&MeshFiles>,
    errors: &mut Vec<ConfigError>,
) -> Option<Located> {
    let mut listener = |key| {
        let field = table.string(key, errors)?;
        address::listen(&field, errors)
    };
    let (public, internal, shared) = (listener("public"), listener("internal"), listener("listen"));
    if let (Some(shared), Some(other)) = (&shared, public.as_ref().or(internal.as_ref())) {
        errors.push(shared.error(
            format!("`{}` and `{}` exclude each other", shared.key, other.key),
            "keep `listen` for one address, or `public` and `internal` for two",
        ));
    }
    let none_written = ["public", "internal", "listen"].iter().all(|key| !table.has(key));
    if none_written {
        errors.push(table.name.error(
            format!("[{}] has no address to listen on", table.name.key),
            format!("{}, or `listen` for a single address", table.example("public")),
        ));
    }

    let resolve = |field: Field<PathBuf>| field.with(dir.join(&field.value));
    let upstream_ca = table.path("upstream_ca", errors).map(resolve);
    let upstream_http = table
        .string("upstream_http", errors)
        .and_then(|field| read_http(&field, errors))
        .unwrap_or_default();
    let upstream_pair = read_pair(table, errors).map(|(cert, key)| (resolve(cert), resolve(key)));
    let tls = tls::read(table, dir, mesh_tls, errors);
    if let Some(client_ca) = tls.as_ref().and_then(|tls| tls.client_ca.as_ref())
        && !table.has("upstream_cert")
    {
        errors.push(client_ca.error(
            format!("`{}`: the service cannot be told who a client is", client_ca.key),
            "add `upstream_cert` and `upstream_key`, by which the service believes this agent",
        ));
    }

    let peers = table.boolean("peers", errors).unwrap_or(true);
    let vouch = table.strings("vouch", errors).into_iter();
    let vouch = vouch.map(|name| name.value.to_owned()).collect();
    let credential = table.path("credential", errors).map(resolve);

    if !table.has("upstream") {
        errors.push(table.missing("upstream"));
    }
    let url = table.string("upstream", errors)?;
    let upstream = read_upstream(&url, upstream_ca.as_ref(), upstream_pair.as_ref(), errors)?;
    let listeners: Vec<_> = [&public, &internal, &shared]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    Some(Located {
        service: Service {
            public: public.map(|field| field.value),
            internal: internal.map(|field| field.value),
            shared: shared.map(|field| field.value),
            upstream,
            upstream_http,
            tls: tls.as_ref().map(tls::Located::files),
            peers,
            vouch,
            credential: credential.as_ref().map(|field| field.value.clone()),
        },
        listeners,
        upstream: url.with(()),
        upstream_ca,
        upstream_pair,
        tls,
        credential,
    })
}

/// `upstream_cert` and `upstream_key`, of which there are both or none.
fn read_pair(table: &Table<'_>, errors: &mut Vec<ConfigError>) -> Option<(Field<PathBuf>, Field<PathBuf>)> {
    let (cert, key) = (
        table.path("upstream_cert", errors),
        table.path("upstream_key", errors),
    );
    for (here, other) in [
        ("upstream_cert", "upstream_key"),
        ("upstream_key", "upstream_cert"),
    ] {
        if table.has(here) && !table.has(other) {
            errors.push(table.missing(other));
        }
    }
    cert.zip(key)
}

fn read_http(field: &Field<&str>, errors: &mut Vec<ConfigError>) -> Option<UpstreamHttp> {
    match field.value {
        "auto" => Some(UpstreamHttp::Auto),
        "1" => Some(UpstreamHttp::One),
        "2" => Some(UpstreamHttp::Two),
        other => {
            errors.push(field.error(
                format!("`{other}` is not an HTTP version"),
                "write `\"auto\"`, `\"1\"` or `\"2\"`",
            ));
            None
        }
    }
}

fn read_upstream(
    url: &Field<&str>,
    ca: Option<&Field<PathBuf>>,
    pair: Option<&(Field<PathBuf>, Field<PathBuf>)>,
    errors: &mut Vec<ConfigError>,
) -> Option<Upstream> {
    let Some((tls, host, port)) = parse_url(url.value) else {
        errors.push(url.error(
            format!("`{}` is not a service's address", url.value),
            "write `http://host:port` or `https://host:port`, without a path",
        ));
        return None;
    };
    match ca {
        None if tls => errors.push(url.error(
            format!("`{}` is https, but nothing says whom to trust", url.key),
            "add `upstream_ca = \"ca.pem\"`, the certificates that the service's own is checked against",
        )),
        _ => {}
    }
    let has_no_effect = [ca, pair.map(|(cert, _)| cert)];
    for field in has_no_effect.into_iter().flatten().filter(|_| !tls) {
        errors.push(field.error(
            format!("`{}` has no effect on an http upstream", field.key),
            "remove it, or write `https://` in `upstream`",
        ));
    }
    Some(Upstream {
        tls,
        host,
        port,
        ca: ca.map(|field| field.value.clone()),
        pair: pair.map(|(cert, key)| UpstreamPair {
            cert: cert.value.clone(),
            key: key.value.clone(),
        }),
    })
}

/// Scheme, host and port of an URL that has nothing else.
fn parse_url(url: &str) -> Option<(bool, String, u16)> {
    let uri: http::Uri = url.parse().ok()?;
    let tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority()?;
    let bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !url.contains(['@', '#', '?']);
    let host = authority.host();
    // What follows the host; `Uri` takes a port that is none for an absent one.
    let port = match authority.as_str().strip_prefix(host)? {
        "" if tls => 443,
        "" => 80,
        rest => rest.strip_prefix(':')?.parse().ok()?,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (bare && !host.is_empty() && port != 0).then(|| (tls, host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::parse_url;

    #[test]
    fn urls() {
        let check = |url, expected: Option<(bool, &str, u16)>| {
            let expected = expected.map(|(tls, host, port)| (tls, host.to_owned(), port));
            assert_eq!(parse_url(url), expected, "{url}");
        };
        check("http://127.0.0.1:5001", Some((false, "127.0.0.1", 5001)));
        check("http://app/", Some((false, "app", 80)));
        check("https://app.example", Some((true, "app.example", 443)));
        check("https://[::1]:8443", Some((true, "::1", 8443)));
        for bad in [
            "127.0.0.1:5001",
            "ftp://a:1",
            "http://",
            "http://a:1/v1",
            "http://a:1?x",
            "http://u@a:1",
            "http://a:0",
            "http://a:99999",
        ] {
            check(bad, None);
        }
    }
}
