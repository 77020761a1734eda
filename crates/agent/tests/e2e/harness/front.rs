//! An application behind TLS that believes whoever shows a certificate of its CA about callers.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime,
    sync::{broadcast, oneshot},
};
use tokio_rustls::TlsAcceptor;

use super::{Authority, Issued, port};

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What a [`Front`] is to be like.
#[derive(Debug, Clone)]
pub(crate) struct FrontOptions {
    /// By ALPN, best first.
    pub(crate) protocols: &'static [&'static str],
    /// Requests at once on one HTTP/2 connection.
    pub(crate) streams_max: u32,
}

impl Default for FrontOptions {
    fn default() -> Self {
        Self {
            protocols: &["h2", "http/1.1"],
            streams_max: 100,
        }
    }
}

/// The application. `/watch` answers without end, one piece for each [`Front::tell`]; `/flood` without end
/// and without pause; `/switch` switches to a protocol that sends everything back; anything else tells what
/// the application saw.
pub(crate) struct Front {
    addr: SocketAddr,
    ca_pem: String,
    /// What an agent shows to be believed.
    pub(crate) agent: Issued,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
}

struct Shared {
    connections: AtomicUsize,
    watching: AtomicUsize,
    news: broadcast::Sender<Bytes>,
    seen: Mutex<Vec<String>>,
}

impl Front {
    pub(crate) fn start() -> Self {
        Self::with(&FrontOptions::default())
    }

    pub(crate) fn with(options: &FrontOptions) -> Self {
        let (servers, proxies) = (Authority::make("servers"), Authority::make("front proxies"));
        let config = Arc::new(server_config(&servers.server(), &proxies, options));
        let shared = Arc::new(Shared {
            connections: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            news: broadcast::channel(64).0,
            seen: Mutex::default(),
        });
        let listener = port::listen();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = accept(config, shared.clone(), options.streams_max);
        thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serving(listener) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            addr,
            ca_pem: servers.cert_pem,
            agent: proxies.person("agent", &[]),
            shared,
            stop: Some(stop),
        }
    }

    /// The lines of a service's configuration that lead here. Files go to `dir`.
    pub(crate) fn upstream(&self, dir: &std::path::Path) -> String {
        std::fs::write(dir.join("front-ca.pem"), &self.ca_pem).unwrap();
        std::fs::write(dir.join("front.pem"), &self.agent.cert_pem).unwrap();
        std::fs::write(dir.join("front.key"), &self.agent.key_pem).unwrap();
        format!(
            "upstream = \"https://{}\"\nupstream_ca = \"front-ca.pem\"",
            self.addr
        )
    }

    /// The lines by which the application believes the agent.
    pub(crate) fn pair() -> &'static str {
        "upstream_cert = \"front.pem\"\nupstream_key = \"front.key\""
    }

    /// Sends a piece to everybody who watches.
    pub(crate) fn tell(&self, piece: &'static str) {
        let _ = self.shared.news.send(Bytes::from_static(piece.as_bytes()));
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many watch now.
    pub(crate) fn watching(&self) -> usize {
        self.shared.watching.load(Ordering::SeqCst)
    }

    /// The targets of all requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

fn server_config(own: &Issued, proxies: &Authority, options: &FrontOptions) -> ServerConfig {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&proxies.cert_pem)).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate(&own.cert_pem)],
            PrivateKeyDer::from_pem_slice(own.key_pem.as_bytes()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = options
        .protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    config
}

fn accept(config: Arc<ServerConfig>, shared: Arc<Shared>, streams_max: u32) -> impl AsyncFnOnce(TcpListener) {
    async move |listener: TcpListener| {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let (acceptor, shared) = (TlsAcceptor::from(config.clone()), shared.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let is_believed = stream.get_ref().1.peer_certificates().is_some();
                let service = service_fn(move |request| {
                    let shared = shared.clone();
                    async move { Ok::<_, Infallible>(answer(&shared, number, is_believed, request)) }
                });
                let mut builder = auto::Builder::new(TokioExecutor::new());
                builder.http2().max_concurrent_streams(streams_max);
                let _ = builder
                    .serve_connection_with_upgrades(TokioIo::new(stream), service)
                    .await;
            });
        }
    }
}

fn answer(shared: &Arc<Shared>, number: usize, is_believed: bool, request: Request<Incoming>) -> Answer {
    shared.seen.lock().unwrap().push(request.uri().to_string());
    match request.uri().path() {
        "/watch" => watch(shared),
        "/flood" => flood(),
        "/switch" if request.headers().contains_key(header::UPGRADE) => switch(request),
        _ => {
            let told = tell(number, is_believed, &request);
            Response::new(Full::new(Bytes::from(told)).boxed())
        }
    }
}

fn tell(number: usize, is_believed: bool, request: &Request<Incoming>) -> String {
    let all = |name: &str| {
        let values = request.headers().get_all(name).iter();
        let texts = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        texts.collect::<Vec<_>>()
    };
    let names: Vec<_> = request.headers().keys().map(http::HeaderName::as_str).collect();
    let told = json!({
        "connection": number,
        "version": format!("{:?}", request.version()),
        "believed": is_believed,
        "user": all("x-remote-user"),
        "groups": all("x-remote-group"),
        "authorization": all("authorization"),
        "headers": names,
    });
    told.to_string()
}

/// Counts a watcher while it watches.
struct Watcher(Arc<Shared>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.watching.fetch_sub(1, Ordering::SeqCst);
    }
}

fn watch(shared: &Arc<Shared>) -> Answer {
    shared.watching.fetch_add(1, Ordering::SeqCst);
    let state = (shared.news.subscribe(), Watcher(shared.clone()));
    let pieces = stream::unfold(state, |(mut news, watcher)| async {
        let piece = news.recv().await.ok()?;
        Some((Ok(Frame::data(piece)), (news, watcher)))
    });
    Response::new(StreamBody::new(pieces).boxed())
}

fn flood() -> Answer {
    let piece = Bytes::from(vec![b'x'; 16 * 1024]);
    let pieces = stream::repeat_with(move || Ok(Frame::data(piece.clone())));
    Response::new(StreamBody::new(pieces).boxed())
}

fn switch(mut request: Request<Incoming>) -> Answer {
    let protocol = request.headers()[header::UPGRADE].clone();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut stream = TokioIo::new(upgraded);
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..read]).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    });
    Response::builder()
        .status(101)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, protocol)
        .body(Empty::new().boxed())
        .unwrap()
}
