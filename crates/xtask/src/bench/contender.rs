//! What is compared, each with one worker and with connections to the upstream kept open.

use std::{
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    agent,
    server::{Server, free_address},
};
use crate::command::find_program;

/// A proxy under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Contender {
    Nginx,
    Haproxy,
    /// With a Lua script that reads a scope and chooses the backend by it
    HaproxyLua,
    Cheops,
    /// The same agent, asked with a scope
    CheopsScope,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::HaproxyLua => "haproxy+lua",
            Self::Cheops => "cheops",
            Self::CheopsScope => "cheops+scope",
        })
    }
}

/// A proxy that runs.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    pub(super) server: Server,
    /// What its requests have beside the usual headers.
    pub(super) header: Option<&'static str>,
}

const SCOPE_HEADER: &str = "X-Scope: bench";
const SCRIPT_FILE: &str = "scope.lua";
/// What an operator would write who has HAProxy alone: one site for all, or one for each service.
const SCOPE_SCRIPT: &str = r#"core.register_action("scope", {"http-req"}, function(txn)
  local field = txn.http:req_get_headers()["x-scope"]
  if not field then return end
  for entry in field[0]:gmatch("[^,]+") do
    local service, site = entry:match("^%s*(%w+)%s*:%s*(%w+)%s*$")
    if not service then service, site = "web", entry:match("^%s*(%w+)%s*$") end
    if service == "web" then txn:set_var("txn.site", site) end
  end
end)
"#;

impl Contender {
    /// Starts the proxy on a core, in a directory of its own below `dir`.
    pub(super) fn start(
        self,
        core: usize,
        upstream: SocketAddr,
        dir: &Path,
        agent: &Path,
    ) -> Result<Running> {
        let dir = dir.join(self.to_string());
        fs::create_dir(&dir)?;
        let address = free_address()?;
        let server = match self {
            Self::Nginx => start_nginx(core, address, &nginx_proxy(address, upstream), &dir),
            Self::Haproxy => start_haproxy(core, address, &haproxy_proxy(address, upstream), &dir),
            Self::HaproxyLua => {
                write(&dir, SCRIPT_FILE, SCOPE_SCRIPT)?;
                start_haproxy(core, address, &haproxy_scope(address, upstream), &dir)
            }
            Self::Cheops | Self::CheopsScope => agent::start(agent, core, address, upstream, &dir),
        }?;
        Ok(Running {
            address,
            server,
            header: self.has_scope().then_some(SCOPE_HEADER),
        })
    }

    pub(super) fn is_agent(self) -> bool {
        matches!(self, Self::Cheops | Self::CheopsScope)
    }

    /// Whether it is asked with a scope.
    fn has_scope(self) -> bool {
        matches!(self, Self::HaproxyLua | Self::CheopsScope)
    }
}

/// About 100 bytes, always the same.
pub(super) const PLAIN_BODY: &str =
    r#"{"id": 1, "name": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#;

/// The application behind every proxy: an nginx that answers every path from memory. `body` may name nginx's
/// variables.
pub(super) fn start_upstream(core: usize, dir: &Path, body: &str) -> Result<(SocketAddr, Server)> {
    let dir = dir.join("upstream");
    fs::create_dir(&dir)?;
    let address = free_address()?;
    let site = format!(
        "server {{ listen {address}; default_type application/json; location / {{ return 200 '{body}'; }} }}"
    );
    let server = start_nginx(core, address, &site, &dir)?;
    Ok((address, server))
}

fn nginx_proxy(address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "upstream app {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; keepalive_time 1d; }}
server {{
  listen {address};
  location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection \"\"; }}
}}"
    )
}

fn start_nginx(core: usize, address: SocketAddr, site: &str, dir: &Path) -> Result<Server> {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {};\n", dir.join(kind).display()))
        .concat();
    let config = format!(
        "daemon off;
user root root;
worker_processes 1;
pid {pid};
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
access_log off;
tcp_nodelay on;
keepalive_requests 1000000000;
keepalive_time 1d;
{temporary}{site}
}}
",
        pid = dir.join("nginx.pid").display(),
    );
    let file = write(dir, "nginx.conf", &config)?;
    Server::start(
        &program("nginx")?,
        &["-e", "stderr", "-c", &file],
        core,
        address,
        dir,
    )
}

const HAPROXY_COMMON: &str = "  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 2s
  timeout client 60s
  timeout server 60s
";

fn haproxy_proxy(address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "global
{HAPROXY_COMMON}frontend in
  bind {address}
  default_backend app
backend app
  server app {upstream}
"
    )
}

/// Other sites would be backends too; here all is asked of this one.
fn haproxy_scope(address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "global
  lua-load {SCRIPT_FILE}
{HAPROXY_COMMON}frontend in
  bind {address}
  http-request lua.scope
  use_backend elsewhere unless {{ var(txn.site) -m str bench }}
  default_backend app
backend app
  server app {upstream}
backend elsewhere
  http-request deny
"
    )
}

pub(super) fn start_haproxy(core: usize, address: SocketAddr, config: &str, dir: &Path) -> Result<Server> {
    let file = write(dir, "haproxy.cfg", config)?;
    Server::start(&program("haproxy")?, &["-db", "-f", &file], core, address, dir)
}

fn program(name: &str) -> Result<PathBuf> {
    find_program(name).with_context(|| format!("{name} is not installed"))
}

/// Writes a configuration and returns its path.
pub(super) fn write(dir: &Path, name: &str, text: &str) -> Result<String> {
    let path = dir.join(name);
    fs::write(&path, text)?;
    Ok(path.display().to_string())
}
