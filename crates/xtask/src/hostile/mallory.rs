//! A site whose key is in the wrong hands: its certificate is good, what it says is whatever it likes.

mod craft;
mod server;

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use cheops_mesh::Identity;
use cheops_net::{Body, Bulk, Clock, MeshTls, PeerLink, PeerOptions};
use cheops_replica::Message;
use cheops_types::{Limits, SiteName, headers};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use tokio::{runtime, task::LocalSet};

use super::stage::{Agent, HOSTILE};
pub(super) use craft::{Shared, boundless, join, write_to};
use server::Server;
pub(super) use server::{Script, Welcomes};

const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

pub(super) struct Mallory {
    pub(super) site: SiteName,
    tls: MeshTls,
    identity: Identity,
    server: Server,
}

impl Mallory {
    /// Reads the files of `cheops ca` and listens as the site that they are for.
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let site = SiteName::new(HOSTILE)?;
        let (tls, identity) = read(dir, &site)?;
        let server = Server::start(&tls)?;
        Ok(Self {
            site,
            tls,
            identity,
            server,
        })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.server.addr
    }

    /// What it answers from now on when it is asked for something of a service.
    pub(super) fn play(&self, script: Script) {
        self.server.play(script);
    }

    /// What it says from now on to a site that asks how old its store is remembered.
    pub(super) fn welcome(&self, welcomes: Welcomes) {
        self.server.welcome(welcomes);
    }

    /// How often it was asked for something of a service.
    pub(super) fn asked(&self) -> usize {
        self.server.asked()
    }

    /// Talks to an agent's peer port over one link.
    pub(super) fn talk<T>(&self, to: &Agent, act: impl AsyncFnOnce(Rc<PeerLink>) -> Result<T>) -> Result<T> {
        talk_as(&self.tls, to, act)
    }

    /// Sends a body where messages of replication go.
    pub(super) fn deliver(&self, to: &Agent, body: Bytes) -> Result<u16> {
        let path = format!("{}messages", headers::PEER_REPLICATION_PATH);
        let (status, _) = self.talk(to, async |link| {
            ask(&link, (Method::POST, &path), &[], body).await
        })?;
        Ok(status)
    }

    /// Sends messages, each in a body of its own, and says how each was answered.
    pub(super) fn send(&self, to: &Agent, messages: &[Message]) -> Result<Vec<u16>> {
        let path = format!("{}messages", headers::PEER_REPLICATION_PATH);
        self.talk(to, async |link| {
            let mut answers = Vec::new();
            for message in messages {
                let body = join(std::slice::from_ref(message))?;
                answers.push(ask(&link, (Method::POST, &path), &[], body).await?.0);
            }
            Ok(answers)
        })
    }

    /// Waits for a message of a site that something is found in.
    fn hear<T>(&self, what: &str, find: impl Fn(&[Message]) -> Option<T>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(found) = self.server.with_heard(&find) {
                return Ok(found);
            }
            if start.elapsed() > SOON {
                bail!("the hostile peer did not hear of {what}");
            }
            thread::sleep(POLL);
        }
    }
}

fn read(dir: &Path, site: &SiteName) -> Result<(MeshTls, Identity)> {
    let file = |name: String| {
        let path = dir.join(name);
        fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    };
    let (ca, cert, key) = (
        file("ca.pem".to_owned())?,
        file(format!("{site}.pem"))?,
        file(format!("{site}.key"))?,
    );
    let tls = MeshTls::new(site, ca.as_bytes(), cert.as_bytes(), key.as_bytes())?;
    Ok((tls, Identity::new(&ca, &cert, &key)?))
}

/// Talks to an agent as whom the files in a directory say.
pub(super) fn talk_with<T>(
    dir: &Path,
    site: &str,
    to: &Agent,
    act: impl AsyncFnOnce(Rc<PeerLink>) -> Result<T>,
) -> Result<T> {
    let (tls, _) = read(dir, &SiteName::new(site)?)?;
    talk_as(&tls, to, act)
}

fn talk_as<T>(tls: &MeshTls, to: &Agent, act: impl AsyncFnOnce(Rc<PeerLink>) -> Result<T>) -> Result<T> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let clock = Clock::new();
        tokio::task::spawn_local(clock.clone().sweep());
        let options = PeerOptions::from(&Limits::default());
        let link = PeerLink::new(
            SiteName::new(to.site)?,
            to.peer.addr.to_string(),
            tls,
            options,
            clock,
        )?;
        act(link).await
    })
}

/// One request over the peer link.
pub(super) async fn ask(
    link: &PeerLink,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<(u16, Bytes)> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let bulk = if body.len() > 256 * 1024 {
        Bulk::Yes
    } else {
        Bulk::No
    };
    let response = link.send(request.body(Body::full(body))?, bulk).await;
    let response = response.map_err(|error| anyhow::anyhow!("{}", error.detail))?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((status, body.to_bytes()))
}
