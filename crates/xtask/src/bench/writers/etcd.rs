//! Members of etcd on this machine, links of some length between them, and a put through the JSON gateway.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use cheops_relay::Relay;
use serde::Deserialize;

use crate::{
    bench::{client::Client, server::free_address},
    command::find_program,
    packages,
};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// As long as the body of a create.
const VALUE: &[u8] = br#"{"name":"bolt"}"#;

/// A cluster that ends when dropped.
pub(in crate::bench) struct Etcd {
    pub(in crate::bench) leader: SocketAddr,
    /// Where the other members answer.
    pub(in crate::bench) others: Vec<SocketAddr>,
    members: Vec<Child>,
    _links: Vec<Relay>,
    dir: tempfile::TempDir,
}

#[derive(Deserialize)]
struct Status {
    header: Header,
    leader: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    member_id: String,
}

impl Etcd {
    /// So many members, each of which the others reach over a link that takes so long one way.
    pub(in crate::bench) fn start(members: usize, one_way: Duration) -> Result<Self> {
        if find_program("etcd").is_none() {
            packages::install("etcd beside Cheops", &["etcd-server"])?;
        }
        let program = find_program("etcd").context("etcd is not installed")?;
        let dir = tempfile::tempdir()?;
        let addresses = || (0..members).map(|_| free_address()).collect::<Result<Vec<_>>>();
        let (clients, peers) = (addresses()?, addresses()?);
        let links = if one_way.is_zero() {
            Vec::new()
        } else {
            let links = peers.iter().map(|peer| link(*peer, one_way));
            links.collect::<Result<_>>()?
        };
        // Where members say that they are: at the near ends of the links to them.
        let reached: Vec<_> = links.iter().map(Relay::addr).collect();
        let reached = if links.is_empty() { peers.clone() } else { reached };
        let cluster: Vec<_> = reached
            .iter()
            .enumerate()
            .map(|(n, peer)| format!("m{n}=http://{peer}"))
            .collect();
        let cluster = cluster.join(",");
        let mut etcd = Self {
            leader: clients[0],
            others: Vec::new(),
            members: Vec::new(),
            _links: links,
            dir,
        };
        for (n, client) in clients.iter().enumerate() {
            let data = etcd.dir.path().join(format!("m{n}"));
            let peer = (peers[n], reached[n]);
            etcd.members
                .push(member(&program, n, &data, *client, peer, &cluster)?);
        }
        etcd.leader = find_leader(&clients)?;
        etcd.others = clients
            .into_iter()
            .filter(|client| *client != etcd.leader)
            .collect();
        Ok(etcd)
    }

    pub(in crate::bench) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Child::id).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}

fn link(to: SocketAddr, one_way: Duration) -> Result<Relay> {
    let link = Relay::bind(SocketAddr::from(([127, 0, 0, 1], 0)), to)?;
    link.set_delay(one_way);
    Ok(link)
}

/// It ends with this program, however that ends.
fn member(
    program: &Path,
    n: usize,
    data: &Path,
    client: SocketAddr,
    (peer, reached): (SocketAddr, SocketAddr),
    cluster: &str,
) -> Result<Child> {
    let [client, peer, reached] = [client, peer, reached].map(|address| format!("http://{address}"));
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args(["--name", &format!("m{n}"), "--data-dir"])
        .arg(data)
        .args([
            "--listen-client-urls",
            &client,
            "--advertise-client-urls",
            &client,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &reached,
        ])
        .args([
            "--initial-cluster",
            cluster,
            "--logger",
            "zap",
            "--log-level",
            "error",
        ])
        // The whole of a long run.
        .args(["--quota-backend-bytes", "8000000000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("etcd cannot be started")
}

fn find_leader(clients: &[SocketAddr]) -> Result<SocketAddr> {
    let deadline = Instant::now() + START_TIMEOUT;
    while Instant::now() < deadline {
        for client in clients {
            if is_leader(*client).unwrap_or(false) {
                return Ok(*client);
            }
        }
        thread::sleep(POLL);
    }
    bail!("etcd has no leader after {} s", START_TIMEOUT.as_secs());
}

fn is_leader(address: SocketAddr) -> Result<bool> {
    let answer = Client::connect(address)?.send("POST", "/v3/maintenance/status", &[], "{}")?;
    let status: Status = serde_json::from_slice(&answer.body)?;
    Ok(status.leader.as_deref() == Some(&status.header.member_id))
}

/// A new key for each number.
pub(in crate::bench) fn put(client: &mut Client, number: u64) -> Result<Duration> {
    let key = BASE64_STANDARD.encode(format!("items/{number:020}"));
    let body = format!(r#"{{"key":"{key}","value":"{}"}}"#, BASE64_STANDARD.encode(VALUE));
    let answer = client.send("POST", "/v3/kv/put", &[], &body)?;
    if answer.status != 200 {
        bail!(
            "etcd answered a put with {}: {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
    Ok(answer.took)
}
