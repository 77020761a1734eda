//! A server on this machine that adds the scope to what kubectl asks, and passes everything else on.
//!
//! It speaks HTTP/1.1 on both sides, also where kubectl could speak HTTP/2: one command asks little, upgrades
//! (exec, attach, port-forward) need HTTP/1.1 anyway, and so a connection of kubectl is a connection to the
//! agent, with nothing to pool, to order or to repeat. Bodies stream in both directions.

use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use cheops_types::headers;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{self, CONNECTION, CONTENT_TYPE, UPGRADE},
};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
};
use tokio_rustls::TlsAcceptor;

use super::{
    answer,
    dial::{Dialer, Stream},
    kubeconfig::Server,
    trust,
};

/// Only programs on this machine are served.
pub(super) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Where ports are taken from, and how many are tried before any free one is taken.
const PORTS: std::ops::Range<u16> = 20_000..61_000;
const PORT_TRIES: u64 = 8;
/// How long nothing is accepted after that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// More than any problem of an agent has.
const PROBLEM_MAX_BYTES: usize = 64 * 1024;
/// Hop by hop, besides those that `Connection` names.
const HOP_HEADERS: [HeaderName; 3] = [
    CONNECTION,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
];

type Answer = Response<Either<Incoming, Full<Bytes>>>;

/// Why the command cannot succeed, whatever kubectl tries next.
#[derive(Debug)]
pub(super) enum Hopeless {
    /// The agent refuses the scope.
    Scope(Value),
    /// Nobody answered yet, and nobody can be reached.
    Unreachable(String),
}

/// Listens, and has not begun to serve.
pub(super) struct Forwarder {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    /// What kubectl is to trust, in PEM.
    certificate: Option<String>,
    shared: Arc<Shared>,
    url: String,
}

struct Shared {
    dialer: Dialer,
    /// How the server is called by who asks it directly.
    host: HeaderValue,
    server: String,
    scope: HeaderValue,
    has_answered: AtomicBool,
    hopeless: mpsc::UnboundedSender<Hopeless>,
}

impl Forwarder {
    /// What makes a command hopeless is told to `hopeless`; the request that showed it stays without an
    /// answer.
    pub(super) async fn bind(
        server: &Server,
        scope: HeaderValue,
        hopeless: mpsc::UnboundedSender<Hopeless>,
    ) -> anyhow::Result<Self> {
        let (tls, certificate) = if server.tls {
            let (config, certificate) = trust::server(server)?;
            (Some(TlsAcceptor::from(config)), Some(certificate))
        } else {
            (None, None)
        };
        let listener = listen(&server.url, &scope).await?;
        let address = listener.local_addr()?;
        let scheme = if server.tls { "https" } else { "http" };
        let authority = server.url.split("://").nth(1).unwrap_or_default();
        let authority = authority.split('/').next().unwrap_or_default();
        Ok(Self {
            listener,
            tls,
            certificate,
            url: format!("{scheme}://{address}{}", server.prefix),
            shared: Arc::new(Shared {
                dialer: Dialer::new(server)?,
                host: HeaderValue::from_str(authority)?,
                server: server.url.clone(),
                scope,
                has_answered: AtomicBool::new(false),
                hopeless,
            }),
        })
    }

    /// What kubectl is to ask instead of the server.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// Serves until it is dropped.
    pub(super) async fn serve(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of descriptors, say: kubectl gives some back.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            tokio::spawn(connection(stream, self.tls.clone(), Arc::clone(&self.shared)));
        }
    }
}

/// The same port for the same server and scope, as long as it is free: kubectl keeps what a server offers in a
/// cache that goes by the server's address, and what is offered differs from site to site.
async fn listen(url: &str, scope: &HeaderValue) -> anyhow::Result<TcpListener> {
    let seed = fnv(&[url.as_bytes(), b" ", scope.as_bytes()]);
    for port in ports(seed) {
        if let Ok(listener) = TcpListener::bind((HOST, port)).await {
            return Ok(listener);
        }
    }
    TcpListener::bind((HOST, 0))
        .await
        .context("no port of this machine can be listened on")
}

fn ports(seed: u64) -> impl Iterator<Item = u16> {
    let count = u64::from(PORTS.end - PORTS.start);
    (0..PORT_TRIES).map(move |n| PORTS.start + ((seed.wrapping_add(n * 7919)) % count) as u16)
}

/// FNV-1a: the same in every version of this program.
fn fnv(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let stream: Box<dyn Stream> = match tls {
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => Box::new(stream),
            // Somebody else, or kubectl gave up.
            Err(_) => return,
        },
        None => Box::new(stream),
    };
    let link = Arc::new(Link {
        shared,
        sender: Mutex::new(None),
    });
    let service = service_fn(move |request| {
        let link = Arc::clone(&link);
        async move { Ok::<_, Infallible>(link.answer(request).await) }
    });
    // An error is kubectl's: it has closed the connection, or broken off a request.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

/// One connection of kubectl, and the one to the server that belongs to it.
struct Link {
    shared: Arc<Shared>,
    /// Requests of one connection come one after the other, so nobody waits here.
    sender: Mutex<Option<SendRequest<Incoming>>>,
}

impl Link {
    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        let shared = &*self.shared;
        let upgrade = request
            .headers()
            .contains_key(UPGRADE)
            .then(|| hyper::upgrade::on(&mut request));
        clean(request.headers_mut(), upgrade.is_some());
        request.headers_mut().insert(header::HOST, shared.host.clone());
        request.headers_mut().insert(headers::SCOPE, shared.scope.clone());
        let mut response = match self.send(request).await {
            Ok(response) => response,
            Err(error) => return shared.failed(&error).await,
        };
        shared.has_answered.store(true, Ordering::Relaxed);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(upgrade) = upgrade
        {
            let upgraded = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                if let (Ok(near), Ok(far)) = (upgrade.await, upgraded.await) {
                    let _ =
                        tokio::io::copy_bidirectional(&mut TokioIo::new(near), &mut TokioIo::new(far)).await;
                }
            });
            return response.map(Either::Left);
        }
        clean(response.headers_mut(), false);
        shared.translate(response).await
    }

    /// Sends once; on another connection only what certainly never left.
    async fn send(&self, mut request: Request<Incoming>) -> anyhow::Result<Response<Incoming>> {
        let mut slot = self.sender.lock().await;
        loop {
            let (mut sender, is_fresh) = match slot.take().filter(|sender| !sender.is_closed()) {
                Some(sender) => (sender, false),
                None => (self.open().await?, true),
            };
            if sender.ready().await.is_err() && !is_fresh {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => {
                    *slot = Some(sender);
                    return Ok(response);
                }
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_fresh => request = unsent,
                    _ => return Err(failed.into_error().into()),
                },
            }
        }
    }

    async fn open(&self) -> anyhow::Result<SendRequest<Incoming>> {
        let stream = self.shared.dialer.dial().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}

impl Shared {
    /// Nothing came back.
    async fn failed(&self, error: &anyhow::Error) -> Answer {
        let message = format!("the agent at {} did not answer: {error:#}", self.server);
        if !self.has_answered.load(Ordering::Relaxed) {
            return self.give_up(Hopeless::Unreachable(message)).await;
        }
        let code = StatusCode::BAD_GATEWAY;
        said(code, answer::status(code, "Cheops", &message))
    }

    /// The answer in kubectl's words, where the agent speaks for itself.
    async fn translate(&self, mut response: Response<Incoming>) -> Answer {
        warn(response.headers_mut());
        let is_problem = response
            .headers()
            .get(CONTENT_TYPE)
            .is_some_and(|media| answer::is_problem(media.as_bytes()));
        if !is_problem {
            return response.map(Either::Left);
        }
        let (mut parts, body) = response.into_parts();
        let body = match Limited::new(body, PROBLEM_MAX_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return self.failed(&anyhow::anyhow!(error.to_string())).await,
        };
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        if answer::is_about_scope(&problem) {
            return self.give_up(Hopeless::Scope(problem)).await;
        }
        let said = said(parts.status, answer::from_problem(parts.status, &problem));
        let (own, body) = said.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.extend(own.headers);
        Response::from_parts(parts, body)
    }

    /// Never comes back: who waits for `hopeless` ends the command.
    async fn give_up(&self, why: Hopeless) -> Answer {
        let _ = self.hopeless.send(why);
        std::future::pending().await
    }
}

fn said(code: StatusCode, body: Vec<u8>) -> Answer {
    let mut response = Response::new(Either::Right(Full::from(body)));
    *response.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn warn(headers: &mut HeaderMap) {
    let receipt = headers
        .get(headers::RECEIPT)
        .and_then(|value| value.to_str().ok());
    for warning in receipt.map(answer::warnings).unwrap_or_default() {
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            headers.append(header::WARNING, warning);
        }
    }
}

/// Takes off what concerns one connection only.
fn clean(headers: &mut HeaderMap, is_upgrade: bool) {
    if is_upgrade {
        return;
    }
    let named: Vec<_> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        .collect();
    for name in named.iter().chain(&HOP_HEADERS) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_stay_the_same() {
        let first: Vec<_> = ports(fnv(&[b"https://a:1", b" ", b"x"])).collect();
        let again: Vec<_> = ports(fnv(&[b"https://a:1", b" ", b"x"])).collect();
        let other: Vec<_> = ports(fnv(&[b"https://a:1", b" ", b"y"])).collect();
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(first.iter().all(|port| PORTS.contains(port)));
        assert!(ports(u64::MAX).all(|port| PORTS.contains(&port)));
    }
}
