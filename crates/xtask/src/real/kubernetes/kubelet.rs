//! The part of a node that an API server asks for logs, `exec` and `port-forward`.
//!
//! The testbed has no nodes: without one the API server refuses these before anything is upgraded. This stands in
//! for a node, speaks TLS and does what a client must see of it: a log that grows, a command that repeats its input
//! (the WebSocket sub-protocol `v5.channel.k8s.io`), and the beginning of a forwarded port (SPDY/3.1).

mod websocket;

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result, bail};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

pub(super) type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// A running node. Its threads end with this program.
pub(super) struct Kubelet {
    pub(super) addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    log: Vec<String>,
    /// The first bytes that came over a forwarded port's connection.
    forwarded: Option<[u8; 4]>,
}

/// A request's first line and headers.
struct Head {
    line: String,
    headers: Vec<(String, String)>,
}

impl Kubelet {
    /// Listens with the certificate of the site's API server.
    pub(super) fn start(pki: &Path) -> Result<Self> {
        let chain = CertificateDer::pem_slice_iter(&fs::read(pki.join("apiserver.crt"))?)
            .collect::<Result<Vec<_>, _>>()
            .context("the API server's certificate cannot be read")?;
        let key = PrivateKeyDer::from_pem_slice(&fs::read(pki.join("apiserver.key"))?)
            .context("the API server's key cannot be read")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State::default());
        let served = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, state) = (config.clone(), served.clone());
                // A connection that breaks off has said what it had to.
                thread::spawn(move || serve(stream, config, &state));
            }
        });
        Ok(Self { addr, state })
    }

    /// Adds a line to the log of every container.
    pub(super) fn log(&self, line: &str) {
        self.state.change(|seen| seen.log.push(line.to_owned()));
    }

    pub(super) fn forwarded(&self) -> Option<[u8; 4]> {
        self.state.lock().forwarded
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until the log has more than `known` lines; the rest.
    fn more(&self, known: usize) -> Vec<String> {
        let waited = self
            .changed
            .wait_while(self.lock(), |seen| seen.log.len() <= known);
        waited.unwrap_or_else(PoisonError::into_inner).log[known..].to_vec()
    }
}

fn serve(stream: TcpStream, config: Arc<ServerConfig>, state: &State) -> Result<()> {
    let tls = StreamOwned::new(ServerConnection::new(config)?, stream);
    let mut stream = BufReader::new(tls);
    let head = Head::read(&mut stream)?;
    let path = head.line.split_whitespace().nth(1).unwrap_or_default();
    if path.starts_with("/containerLogs/") {
        log(&mut stream, state, path.contains("follow=true"))
    } else if path.starts_with("/exec/") && head.is("upgrade", "websocket") {
        websocket::repeat_input(&mut stream, head.get("sec-websocket-key").unwrap_or_default())
    } else if path.starts_with("/portForward/") && head.is("upgrade", "spdy/3.1") {
        forward(&mut stream, state)
    } else {
        let answer = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        Ok(stream.get_mut().write_all(answer.as_bytes())?)
    }
}

fn log(stream: &mut Stream, state: &State, follow: bool) -> Result<()> {
    let out = stream.get_mut();
    out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let mut lines = state.lock().log.clone();
    let mut known = lines.len();
    loop {
        for line in lines {
            write!(out, "{:x}\r\n{line}\n\r\n", line.len() + 1)?;
        }
        out.flush()?;
        if !follow {
            return Ok(out.write_all(b"0\r\n\r\n")?);
        }
        lines = state.more(known);
        known += lines.len();
    }
}

fn forward(stream: &mut Stream, state: &State) -> Result<()> {
    stream.get_mut().write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
          X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n",
    )?;
    let mut first = [0; 4];
    stream.read_exact(&mut first)?;
    state.change(|seen| seen.forwarded = Some(first));
    // Open until the client ends it.
    std::io::copy(stream, &mut std::io::sink())?;
    Ok(())
}

impl Head {
    fn read(stream: &mut Stream) -> Result<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                bail!("the request ended in its head");
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let headers = lines.iter().skip(1).filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        });
        Ok(Self {
            headers: headers.collect(),
            line: lines.first().context("the request has no first line")?.clone(),
        })
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.get(name).is_some_and(|own| own.eq_ignore_ascii_case(value))
    }
}
