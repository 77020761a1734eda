//! One client connection from its first byte to its last.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use cheops_types::{Limit, Limits, SiteName};
use http::{Request, Response, Version};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{rt::TokioIo, server::conn::auto};
use rustls_pki_types::CertificateDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Body, BudgetOptions, Client, Clock, Deadline, LocalExecutor, Network, PaceOptions,
    budget::Place,
    client_stream::{BodyBytes, ClientStream, Flow},
    drain::{Drain, DrainMember, Ending},
    http1::BUILT_IN_FIELDS_MAX,
    outbox::Outbox,
    pace::Pace,
    share::{Share, Shares},
    slice::Sliced,
    stream::KEEPALIVE,
    timer::CoarseTimer,
    tls::{Subject, site_of},
};

/// What one HTTP/2 answer may have waiting here for its client's window.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// The bounds of a listener's connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    pub head_max_bytes: usize,
    pub head_fields_max: usize,
    pub head_timeout_ms: u64,
    pub drain_timeout_ms: u64,
    pub connections_max: usize,
    pub streams_max: u32,
    /// What one HTTP/2 body may have under way.
    pub stream_window_bytes: u32,
    /// What all HTTP/2 bodies of one connection may have under way.
    pub window_bytes: u32,
    pub pace: PaceOptions,
    pub budget: BudgetOptions,
    /// Whether connections are accepted also from what clients must leave.
    pub uses_reserve: bool,
    /// What a peer may take of a core's time while clients use it; none on a listener for clients.
    pub core_share_percent: Option<u32>,
}

impl ServeOptions {
    /// For users and services.
    pub fn for_clients(limits: &Limits) -> Self {
        Self {
            head_max_bytes: limits.head_max_bytes,
            head_fields_max: limits.head_fields_max,
            head_timeout_ms: limits.head_timeout_ms,
            drain_timeout_ms: limits.drain_timeout_ms,
            connections_max: limits.connections_max,
            streams_max: limits.client_streams_max,
            stream_window_bytes: limits.client_stream_window_bytes,
            window_bytes: limits.client_stream_window_bytes.saturating_mul(2),
            pace: PaceOptions::from(limits),
            budget: BudgetOptions::from(limits),
            uses_reserve: false,
            core_share_percent: None,
        }
    }

    /// For other agents, who have many users behind one connection.
    pub fn for_peers(limits: &Limits) -> Self {
        Self {
            streams_max: u32::try_from(limits.peer_inflight_max).unwrap_or(u32::MAX),
            stream_window_bytes: limits.peer_stream_window_bytes,
            window_bytes: limits.peer_window_bytes,
            uses_reserve: true,
            core_share_percent: Some(limits.peer_core_share_percent),
            ..Self::for_clients(limits)
        }
    }
}

/// What is known about a connection apart from its requests.
pub struct Connection<T> {
    /// What the listener is for.
    pub tag: T,
    pub remote: SocketAddr,
    /// The site that the client's certificate names; only ever set on a port that demands one.
    pub peer: Option<SiteName>,
    /// The user that the client's certificate names; only ever set on a port that takes one.
    pub subject: Option<Subject>,
    pub is_tls: bool,
    has_begun: Cell<bool>,
    drain: Rc<Drain>,
    drain_timeout_ms: u64,
    clock: Rc<Clock>,
    outbox: Rc<Outbox>,
    pace: PaceOptions,
    flow: Arc<Flow>,
}

impl<T> Connection<T> {
    /// Whose budgets count; none for one who is not counted.
    pub fn client(&self) -> Option<Client> {
        self.flow.client()
    }

    /// Must be told of each request's end, before its answer is sent.
    pub fn answered(&self) {
        self.flow.end_body();
    }

    fn begin<B: http_body::Body>(&self, request: &Request<B>) {
        self.has_begun.set(true);
        let body = request.body();
        let bytes = match body.size_hint().exact() {
            _ if request.version() == Version::HTTP_2 => BodyBytes::Always,
            Some(bytes) if self.is_tls => BodyBytes::InTls(bytes),
            Some(bytes) => BodyBytes::Exactly(bytes),
            None => BodyBytes::UntilAnswered,
        };
        self.flow.begin_body(bytes);
    }

    /// Ends an answer over HTTP/2 when its client is too slow; of HTTP/1.1 the connection ends. What is
    /// handed out in one piece holds nothing.
    #[must_use]
    pub fn paced(&self, body: Body) -> Body {
        if body.is_one_piece() {
            return body;
        }
        Body::other(self.outbox.send(body, self.pace))
    }

    /// For a body without an end of its own, see [`Body::until`].
    pub fn ending(&self) -> Ending {
        self.drain.ending()
    }

    /// Keeps what outlives the HTTP connection, a tunnel, among those that a drain waits for.
    pub fn hold(&self) -> Hold {
        Hold {
            member: self.drain.join(),
            timeout_ms: self.drain_timeout_ms,
            clock: self.clock.clone(),
        }
    }
}

/// A place among a listener's connections.
pub struct Hold {
    member: DrainMember,
    timeout_ms: u64,
    clock: Rc<Clock>,
}

impl Hold {
    /// Runs `future`, but not longer than a drain allows.
    pub async fn run<F: Future>(self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut forced_end: Option<Deadline> = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if forced_end.is_none() && self.member.should_end(cx) {
                forced_end = Some(self.clock.deadline(self.timeout_ms));
            }
            match &mut forced_end {
                Some(deadline) => Pin::new(deadline).poll(cx).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

/// Answers requests on one core.
pub trait Handler: 'static {
    /// What a listener is for, handed back with each of its connections.
    type Tag: Clone + Send + 'static;

    /// Always answers; the result is what the connection wants.
    fn handle(
        self: Rc<Self>,
        connection: Rc<Connection<Self::Tag>>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + 'static;
}

/// What the connections of one listener share on one core.
pub(crate) struct Acceptor<H: Handler> {
    pub(crate) handler: Rc<H>,
    pub(crate) tag: H::Tag,
    pub(crate) tls: RefCell<Option<Arc<rustls::ServerConfig>>>,
    pub(crate) options: ServeOptions,
    /// Whose budgets do not count.
    pub(crate) exempt: Arc<[Network]>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) outbox: Rc<Outbox>,
    pub(crate) shares: Rc<Shares>,
    pub(crate) http: auto::Builder<LocalExecutor>,
}

pub(crate) fn http_builder(options: &ServeOptions, timer: CoarseTimer) -> auto::Builder<LocalExecutor> {
    let mut builder = auto::Builder::new(LocalExecutor);
    builder
        .http1()
        .timer(timer)
        .header_read_timeout(Duration::from_millis(options.head_timeout_ms))
        .max_buf_size(options.head_max_bytes.max(8 * 1024));
    if options.head_fields_max != BUILT_IN_FIELDS_MAX {
        builder.http1().max_headers(options.head_fields_max);
    }
    builder
        .http2()
        .timer(timer)
        .max_concurrent_streams(options.streams_max)
        .initial_stream_window_size(options.stream_window_bytes)
        .initial_connection_window_size(options.window_bytes)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .max_header_list_size(u32::try_from(options.head_max_bytes).unwrap_or(u32::MAX));
    builder
}

impl<H: Handler> Acceptor<H> {
    pub(crate) async fn serve(
        self: Rc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        place: Place,
        drain: Rc<Drain>,
    ) {
        let stream = ClientStream::new(stream, place);
        let flow = stream.flow();
        let member = drain.join();
        let tls = self.tls.borrow().clone();
        let Some(tls) = tls else {
            let connection = self.connection(remote, None, false, flow, drain);
            return self.serve_stream(stream, connection, member).await;
        };
        let accept = TlsAcceptor::from(tls).accept(stream);
        let accept = self
            .clock
            .timeout(self.options.head_timeout_ms, unless_ending(&member, accept));
        match accept.await {
            Ok(Some(Ok(stream))) => {
                let session = stream.get_ref().1;
                let certificate = session.peer_certificates().and_then(|chain| chain.first());
                let speaks_http2 = session.alpn_protocol() == Some(b"h2");
                let connection = self.connection(remote, certificate, true, flow, drain);
                // Over HTTP/2 pings tell who is there; a peer keeps a connection open without requests.
                connection.has_begun.set(speaks_http2);
                self.serve_stream(stream, connection, member).await;
            }
            Ok(Some(Err(error))) => tracing::debug!(%remote, %error, "TLS handshake failed"),
            Ok(None) => {}
            Err(_) => Limit::HeadTimeout.hit(),
        }
    }

    fn connection(
        &self,
        remote: SocketAddr,
        certificate: Option<&CertificateDer<'_>>,
        is_tls: bool,
        flow: Arc<Flow>,
        drain: Rc<Drain>,
    ) -> Rc<Connection<H::Tag>> {
        // A port takes certificates of sites or of users, never of both.
        Rc::new(Connection {
            tag: self.tag.clone(),
            remote,
            peer: certificate.and_then(site_of),
            subject: certificate.and_then(Subject::of),
            is_tls,
            has_begun: Cell::new(false),
            drain,
            drain_timeout_ms: self.options.drain_timeout_ms,
            clock: self.clock.clone(),
            outbox: self.outbox.clone(),
            pace: self.options.pace,
            flow,
        })
    }

    /// None for a client, who has the core for as long as it takes.
    fn share(&self, connection: &Connection<H::Tag>) -> Option<Share> {
        let percent = self.options.core_share_percent?;
        let peer = connection.peer.as_ref()?;
        Some(self.shares.of(peer, percent))
    }

    async fn serve_stream<S>(&self, stream: S, connection: Rc<Connection<H::Tag>>, member: DrainMember)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let flow = &*connection.flow;
        let service = service_fn(|request: Request<Incoming>| {
            connection.begin(&request);
            // Not wrapped in another future: the whole state of a request would be moved once more.
            self.handler.clone().handle(connection.clone(), request)
        });
        let mut http = pin!(
            self.http
                .serve_connection_with_upgrades(TokioIo::new(Sliced::new(stream)), service)
        );
        // Until the first request HTTP has not begun, and so its own time limit has not either.
        let mut silence = Some(self.clock.deadline(self.options.head_timeout_ms));
        let mut forced_end: Option<Deadline> = None;
        let mut reader = Reader::default();
        let mut share = self.share(&connection);
        std::future::poll_fn(|cx| {
            if forced_end.is_none() && member.should_end(cx) {
                forced_end = Some(self.clock.deadline(self.options.drain_timeout_ms));
                http.as_mut().graceful_shutdown();
            }
            // Whose turn it is not still ends when it has to.
            let polled = match &mut share {
                None => {
                    self.shares.see_client();
                    http.as_mut().poll(cx)
                }
                Some(share) => match share.poll_turn(cx) {
                    Poll::Ready(()) => share.run(|| http.as_mut().poll(cx)),
                    Poll::Pending => Poll::Pending,
                },
            };
            if let Poll::Ready(result) = polled {
                if let Err(error) = result {
                    count(error.downcast_ref());
                    tracing::debug!(remote = %connection.remote, %error, "connection ended");
                }
                return Poll::Ready(());
            }
            if let Some(deadline) = &mut forced_end
                && Pin::new(deadline).poll(cx).is_ready()
            {
                Limit::Drain.hit();
                return Poll::Ready(());
            }
            if let Some(limit) = reader.too_slow(cx, flow, &self.clock, &self.options.pace) {
                limit.hit();
                flow.give_up();
                return Poll::Ready(());
            }
            if let Some(deadline) = &mut silence {
                if connection.has_begun.get() {
                    silence = None;
                } else if Pin::new(deadline).poll(cx).is_ready() {
                    Limit::HeadTimeout.hit();
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }
}

/// The client of a connection as one who reads.
#[derive(Default)]
struct Reader {
    pace: Pace,
    /// The next look; none while the client has taken everything.
    next_look: Option<Deadline>,
}

impl Reader {
    /// The limit that the client hits by not reading. While it reads this is one load.
    fn too_slow(
        &mut self,
        cx: &mut Context<'_>,
        flow: &Flow,
        clock: &Rc<Clock>,
        options: &PaceOptions,
    ) -> Option<Limit> {
        let is_owed = flow.is_owed();
        if !is_owed && self.next_look.is_none() {
            return None;
        }
        let limit = self
            .pace
            .look(clock.now_ms(), is_owed, flow.taken_bytes(), options);
        if !is_owed || limit.is_some() {
            self.next_look = None;
            return limit;
        }
        loop {
            let next = self
                .next_look
                .get_or_insert_with(|| clock.deadline(options.look_every_ms().max(1)));
            if Pin::new(next).poll(cx).is_pending() {
                return None;
            }
            self.next_look = None;
        }
    }
}

/// Counts the bounds that HTTP/1.1 keeps by itself. It does not tell a head with too many fields from
/// one that is too long.
fn count(error: Option<&hyper::Error>) {
    match error {
        Some(error) if error.is_parse_too_large() => Limit::HeadBytes.hit(),
        Some(error) if error.is_timeout() => Limit::HeadTimeout.hit(),
        _ => {}
    }
}

/// Gives up a handshake when the connection should end.
async fn unless_ending<F: Future>(member: &DrainMember, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        if member.should_end(cx) {
            return Poll::Ready(None);
        }
        future.as_mut().poll(cx).map(Some)
    })
    .await
}
