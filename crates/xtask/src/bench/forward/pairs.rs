//! Two proxies with TLS between them: agents, and HAProxies.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::{FAR_CORE, NEAR_CORE};
use crate::{
    bench::{
        contender::{start_haproxy, write},
        server::{Server, free_address},
    },
    processes,
};

pub(super) const NEAR: &str = "near";
const FAR: &str = "far";

/// One way to the application.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) header: Option<(&'static str, &'static str)>,
    /// The near and the far one; none where clients ask the application itself.
    pub(super) proxies: Option<[Server; 2]>,
}

pub(super) fn straight(application: SocketAddr) -> Way {
    Way {
        name: "straight",
        address: application,
        header: None,
        proxies: None,
    }
}

pub(super) fn certify(program: &Path, dir: &Path) -> Result<()> {
    processes::certify(program, dir, &[NEAR, FAR])
}

/// Two sites of a mesh. `dir` holds their certificates, each in a directory.
pub(super) fn agents(program: &Path, application: SocketAddr, dir: &Path) -> Result<Way> {
    let address = free_address()?;
    let (near, far) = (free_address()?, free_address()?);
    let config =
        |site: &str, public: SocketAddr, own: SocketAddr, other: (&str, SocketAddr)| -> Result<String> {
            let (other, other_address) = other;
            let internal = free_address()?;
            Ok(format!(
                "site = \"{site}\"
data_dir = \"data\"
workers = 1
glue = \"plain\"

[peer]
listen = \"{own}\"
ca = \"ca.pem\"
cert = \"{site}.pem\"
key = \"{site}.key\"

[services.web]
public = \"{public}\"
internal = \"{internal}\"
upstream = \"http://{application}\"

[sites.{other}]
address = \"{other_address}\"
"
            ))
        };
    let start = |site: &str, core: usize, public: SocketAddr, text: String| -> Result<Server> {
        let dir = dir.join(site);
        write(&dir, "cheops.toml", &text)?;
        Server::start(program, &["run", "-c", "cheops.toml"], core, public, &dir)
    };
    let far_public = free_address()?;
    let far_one = start(
        FAR,
        FAR_CORE,
        far_public,
        config(FAR, far_public, far, (NEAR, near))?,
    )?;
    let near_one = start(NEAR, NEAR_CORE, address, config(NEAR, address, near, (FAR, far))?)?;
    Ok(Way {
        name: "agents",
        address,
        header: Some(("X-Scope", FAR)),
        proxies: Some([near_one, far_one]),
    })
}

/// Two HAProxies with the same certificates.
pub(super) fn haproxies(application: SocketAddr, certificates: &Path, dir: &Path) -> Result<Way> {
    let (address, between) = (free_address()?, free_address()?);
    let ca = certificates.join(FAR).join("ca.pem");
    let pair = pem(&certificates.join(FAR), dir)?;
    let (ca, pair) = (ca.display(), pair.display());
    let near = config(
        &format!("bind {address}"),
        &format!("server far {between} ssl verify required ca-file {ca}"),
    );
    let far = config(
        &format!("bind {between} ssl crt {pair}"),
        &format!("server app {application}"),
    );
    let start = |name: &str, core: usize, at: SocketAddr, config: &str| -> Result<Server> {
        let dir = dir.join(format!("haproxy-{name}"));
        fs::create_dir(&dir)?;
        start_haproxy(core, at, config, &dir)
    };
    let far = start(FAR, FAR_CORE, between, &far)?;
    let near = start(NEAR, NEAR_CORE, address, &near)?;
    Ok(Way {
        name: "haproxies",
        address,
        header: None,
        proxies: Some([near, far]),
    })
}

/// Certificate and key in one file, as HAProxy reads them.
fn pem(site: &Path, dir: &Path) -> Result<PathBuf> {
    let part = |end: &str| -> Result<String> {
        let file = site.join(format!("{FAR}.{end}"));
        fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))
    };
    let text = part("pem")? + &part("key")?;
    Ok(write(dir, "far-pair.pem", &text)?.into())
}

fn config(bind: &str, server: &str) -> String {
    format!(
        "global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-keep-alive
  http-reuse always
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend in
  {bind}
  default_backend next
backend next
  {server}
"
    )
}
