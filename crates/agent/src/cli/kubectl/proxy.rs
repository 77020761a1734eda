//! The proxy between the caller and the server, if there is one.

use std::{env, fmt, net::IpAddr};

use anyhow::anyhow;
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::kubeconfig::Server;
use crate::cli::BadInput;

/// An HTTP proxy that is asked for a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) host: String,
    pub(super) port: u16,
    /// `user:password`.
    user: Option<String>,
}

impl Proxy {
    /// The kubeconfig's, else the environment's, as for kubectl.
    pub(super) fn of(server: &Server) -> anyhow::Result<Option<Self>> {
        if let Some(url) = &server.proxy {
            return Self::parse(url).map(Some);
        }
        let names: [&str; 2] = if server.tls {
            ["HTTPS_PROXY", "https_proxy"]
        } else {
            ["HTTP_PROXY", "http_proxy"]
        };
        let Some(url) = variable(names) else {
            return Ok(None);
        };
        let exempt = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        if is_exempt(&server.host, &exempt) {
            return Ok(None);
        }
        Self::parse(&url).map(Some)
    }

    fn parse(url: &str) -> anyhow::Result<Self> {
        let wrong = |why: &str| anyhow!(BadInput(format!("the proxy `{url}` cannot be used: {why}")));
        let text = if url.contains("://") {
            url.to_owned()
        } else {
            format!("http://{url}")
        };
        let uri: http::Uri = text.parse().map_err(|_| wrong("it is no URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("`cheops kubectl` speaks to http:// proxies only"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        let user = authority
            .as_str()
            .rsplit_once('@')
            .map(|(user, _)| user.to_owned());
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        Ok(Self {
            host: host.to_owned(),
            port: authority.port_u16().unwrap_or(80),
            user,
        })
    }

    /// What to ask the proxy for.
    pub(super) fn request(&self, host: &str, port: u16) -> String {
        let target = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let user = self.user.as_ref().map_or_else(String::new, |user| {
            format!("Proxy-Authorization: Basic {}\r\n", BASE64_STANDARD.encode(user))
        });
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{user}\r\n")
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn variable(names: [&str; 2]) -> Option<String> {
    names
        .iter()
        .filter_map(|name| env::var(name).ok())
        .find(|value| !value.is_empty())
}

/// This machine never needs a proxy; nor do the hosts in the list, with all below a domain.
fn is_exempt(host: &str, list: &str) -> bool {
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let matches = |entry: &str| {
        let domain = entry.trim_start_matches("*.").trim_start_matches('.');
        entry == "*" || host == domain || (!domain.is_empty() && host.ends_with(&format!(".{domain}")))
    };
    is_loopback || host == "localhost" || list.split(',').map(str::trim).any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_asked_for_a_tunnel() {
        let proxy = Proxy::parse("http://bob:secret@proxy.example:3128").unwrap();
        assert_eq!(proxy.to_string(), "proxy.example:3128");
        assert_eq!(
            proxy.request("::1", 6443),
            "CONNECT [::1]:6443 HTTP/1.1\r\nHost: [::1]:6443\r\nProxy-Authorization: Basic Ym9iOnNlY3JldA==\r\n\r\n"
        );
        assert_eq!(Proxy::parse("proxy").unwrap().to_string(), "proxy:80");
        for bad in ["socks5://proxy:1080", "https://proxy", "http://", "http://a b"] {
            assert!(Proxy::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn some_hosts_need_none() {
        let check = |host, list, expected| assert_eq!(is_exempt(host, list), expected, "{host} {list}");
        check("127.0.0.1", "", true);
        check("::1", "", true);
        check("localhost", "", true);
        check("a.example", "", false);
        check("a.example", "b.example, a.example", true);
        check("a.example", ".example", true);
        check("a.example", "example", true);
        check("a.example", "ample", false);
        check("a.example", "*", true);
    }
}
