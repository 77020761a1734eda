//! The hostile site's own peer port: what other sites ask of it is answered by a script.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    thread,
};

use anyhow::Result;
use bytes::Bytes;
use cheops_net::{Body, BoxError, LocalExecutor, MeshTls};
use cheops_replica::{Age, Hello, Message, Welcome};
use cheops_types::{Pulse, SiteName, headers};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, runtime, task::LocalSet};
use tokio_rustls::TlsAcceptor;

use super::craft::INCARNATION;
use crate::hostile::{measure::give_way, stage::HOSTILE};

/// Messages that are kept: enough for what the attacks wait for.
const HEARD_MAX: usize = 4096;

/// What is answered to a request for a service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// For [`headers::PEER_REPLICAS`].
    pub(crate) replicas: Option<String>,
    pub(crate) body: Bytes,
    /// How often the body is sent, one after the other, as one body.
    pub(crate) times: usize,
}

/// What is answered to a site that has started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Welcomes {
    #[default]
    Honest,
    /// Its store is said to be older than it can be.
    Absurd,
}

pub(super) struct Server {
    pub(super) addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    heard: Mutex<Vec<Message>>,
    script: Mutex<Script>,
    welcomes: Mutex<Welcomes>,
    asked: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(super) fn start(tls: &MeshTls) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let acceptor = TlsAcceptor::from(tls.server()?);
        let state = Arc::new(State::default());
        let shared = state.clone();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("mallory".to_owned()).spawn(move || {
            give_way();
            LocalSet::new().block_on(&runtime, async move {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, state) = (acceptor.clone(), shared.clone());
                    tokio::task::spawn_local(async move {
                        let Ok(stream) = acceptor.accept(stream).await else {
                            return;
                        };
                        let service = service_fn(move |request| answer(state.clone(), request));
                        let connection = http2::Builder::new(LocalExecutor);
                        // Whoever hangs up connects again.
                        let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        })?;
        Ok(Self { addr, state })
    }

    pub(super) fn play(&self, script: Script) {
        *lock(&self.state.script) = script;
    }

    pub(super) fn welcome(&self, welcomes: Welcomes) {
        *lock(&self.state.welcomes) = welcomes;
    }

    pub(super) fn asked(&self) -> usize {
        self.state.asked.load(Ordering::Relaxed)
    }

    pub(super) fn with_heard<T>(&self, find: impl Fn(&[Message]) -> T) -> T {
        find(&lock(&self.state.heard))
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let is_for_service = request.headers().contains_key(headers::PEER_SERVICE);
    let path = request.uri().path().to_owned();
    if is_for_service {
        state.asked.fetch_add(1, Ordering::Relaxed);
        return Ok(scripted(&lock(&state.script)));
    }
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut response = match path.strip_prefix(headers::PEER_REPLICATION_PATH) {
        _ if path == headers::PEER_HEARTBEAT_PATH => Response::new(Body::full(pulse())),
        Some("messages") => {
            let mut heard = lock(&state.heard);
            heard.extend(read(&body));
            let surplus = heard.len().saturating_sub(HEARD_MAX);
            heard.drain(..surplus);
            Response::new(Body::Empty)
        }
        Some("hello") => Response::new(Body::full(welcome(&body, *lock(&state.welcomes)))),
        _ => Response::new(Body::Empty),
    };
    if matches!(response.body(), Body::Empty) {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

fn scripted(script: &Script) -> Response<Body> {
    let mut response = Response::new(Body::other(Repeated {
        piece: script.body.clone(),
        left: script.times,
    }));
    let head = response.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(value) = script
        .replicas
        .as_deref()
        .and_then(|text| HeaderValue::try_from(text).ok())
    {
        head.insert(headers::PEER_REPLICAS, value);
    }
    response
}

fn pulse() -> Vec<u8> {
    let Ok(site) = SiteName::new(HOSTILE) else {
        return Vec::new();
    };
    let pulse = Pulse {
        site,
        round_trips_us: std::collections::BTreeMap::default(),
        incarnation: INCARNATION,
    };
    serde_json::to_vec(&pulse).unwrap_or_default()
}

fn welcome(body: &[u8], welcomes: Welcomes) -> Vec<u8> {
    let Ok(hello) = serde_json::from_slice::<Hello>(body) else {
        return Vec::new();
    };
    let absurd = |start| Age {
        incarnation: u64::MAX - start,
        steps: u64::MAX,
        start,
    };
    let known = match welcomes {
        Welcomes::Honest => Vec::new(),
        Welcomes::Absurd => (0..10_000).map(absurd).collect(),
    };
    let welcome = Welcome {
        start: hello.age.start,
        known,
    };
    serde_json::to_vec(&welcome).unwrap_or_default()
}

/// The messages of a body; none where the format is another one.
fn read(body: &[u8]) -> Vec<Message> {
    let mut rest = body.get(1..).unwrap_or_default();
    let mut messages = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk() {
        let Some((message, tail)) = tail.split_at_checked(u32::from_be_bytes(*length) as usize) else {
            break;
        };
        messages.extend(rmp_serde::from_slice::<Message>(message));
        rest = tail;
    }
    messages
}

/// A piece, again and again.
struct Repeated {
    piece: Bytes,
    left: usize,
}

impl http_body::Body for Repeated {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}
