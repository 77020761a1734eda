//! One client connection from its first byte to its last.

mod http1;
mod options;

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    future::{Future, poll_fn},
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use cheops_types::{Limit, SiteName};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use tokio::{net::TcpStream, sync::oneshot};
use tokio_rustls::TlsAcceptor;

use crate::{
    Body, Client, Clock, Deadline, LocalExecutor, Network, OnSwitch, PaceOptions, Received, Switched,
    budget::Place,
    client_stream::{ClientStream, Flow},
    drain::{Drain, DrainMember, Ending},
    http1::{HeadError, HeadLimits},
    outbox::Outbox,
    pace::Pace,
    request_body::ClientSide,
    share::{Share, Shares},
    slice::Sliced,
    stream::{KEEPALIVE, Stream},
    switched::Rewound,
    timer::CoarseTimer,
    tls::{Subject, site_of},
    wire::Wire,
};
use http1::{End, Http1};

pub(crate) use http1::Dates;
pub use options::ServeOptions;

/// How a connection begins over which a client speaks HTTP/2 without having asked.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// No shorter bound of a head is kept: a connection reads so much anyway.
const HEAD_MAX_MIN_BYTES: usize = 8 * 1024;

/// What one HTTP/2 answer may have waiting here for its client's window.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

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
    /// Who gets the connection if its client's request is answered with a switch of protocols.
    switch: Cell<Option<oneshot::Sender<Switched>>>,
}

impl<T> Connection<T> {
    /// Whose budgets count; none for one who is not counted.
    pub fn client(&self) -> Option<Client> {
        self.flow.client()
    }

    /// A request begins.
    fn begin(&self) {
        self.has_begun.set(true);
        self.switch.take();
    }

    /// The connection, once its request of HTTP/1.1 was answered with a switch of protocols.
    pub fn on_switch(&self) -> OnSwitch {
        let (tell, on_switch) = OnSwitch::new();
        self.switch.set(Some(tell));
        on_switch
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
        request: Request<Received>,
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
    pub(crate) dates: Rc<Dates>,
    pub(crate) http2: http2::Builder<LocalExecutor>,
}

pub(crate) fn http2_builder(options: &ServeOptions, timer: CoarseTimer) -> http2::Builder<LocalExecutor> {
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
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
            return self.serve_stream(Stream::Plain(stream), connection, member).await;
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
                let stream = Stream::Tls(Box::new(stream.into()));
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
            switch: Cell::default(),
        })
    }

    /// None for a client, who has the core for as long as it takes.
    fn share(&self, connection: &Connection<H::Tag>) -> Option<Share> {
        let percent = self.options.core_share_percent?;
        let peer = connection.peer.as_ref()?;
        Some(self.shares.of(peer, percent))
    }

    async fn serve_stream(
        &self,
        stream: Stream<ClientStream>,
        connection: Rc<Connection<H::Tag>>,
        member: DrainMember,
    ) {
        let flow = &*connection.flow;
        flow.begin_http();
        let is_closing = Cell::new(false);
        let mut http = pin!(self.serve_http(Sliced::new(stream), &connection, &is_closing));
        // Until the first request HTTP has not begun, and so its own time limit has not either.
        let mut silence = Some(self.clock.deadline(self.options.head_timeout_ms));
        let mut forced_end: Option<Deadline> = None;
        let mut reader = Reader::default();
        let mut share = self.share(&connection);
        poll_fn(|cx| {
            if forced_end.is_none() && member.should_end(cx) {
                forced_end = Some(self.clock.deadline(self.options.drain_timeout_ms));
                is_closing.set(true);
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
            if polled.is_ready() {
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

    /// Serves the version of HTTP that the client begins with.
    async fn serve_http(
        &self,
        stream: ClientSide,
        connection: &Rc<Connection<H::Tag>>,
        is_closing: &Cell<bool>,
    ) {
        let mut wire = Wire::new(stream);
        let begun = poll_fn(|cx| {
            loop {
                let read = &wire.read;
                if read.starts_with(HTTP2_PREFACE) || !HTTP2_PREFACE.starts_with(read) {
                    return Poll::Ready(true);
                }
                if is_closing.get() && read.is_empty() {
                    return Poll::Ready(false);
                }
                match std::task::ready!(wire.poll_fill(cx)) {
                    Ok(0) | Err(_) => return Poll::Ready(!wire.read.is_empty()),
                    Ok(_) => {}
                }
            }
        });
        if !begun.await {
            return;
        }
        if wire.read.starts_with(HTTP2_PREFACE) {
            return Box::pin(self.serve_http2(wire, connection, is_closing)).await;
        }
        let limits = HeadLimits {
            bytes_max: self.options.head_max_bytes.max(HEAD_MAX_MIN_BYTES),
            fields_max: self.options.head_fields_max,
        };
        let http = Http1::new(
            wire,
            &self.handler,
            connection,
            limits,
            self.options.head_timeout_ms,
            &self.dates,
            is_closing,
        );
        if let Err(end) = http.run().await {
            count(&end);
            tracing::debug!(remote = %connection.remote, %end, "connection ended");
        }
    }

    async fn serve_http2(
        &self,
        wire: Wire<ClientSide>,
        connection: &Rc<Connection<H::Tag>>,
        is_closing: &Cell<bool>,
    ) {
        let service = service_fn(|request: Request<Incoming>| {
            connection.begin();
            // Not wrapped in another future: the whole state of a request would be moved once more.
            self.handler
                .clone()
                .handle(connection.clone(), request.map(Received::Http2))
        });
        let stream = TokioIo::new(Rewound::new(wire.read.freeze(), wire.stream));
        let mut http = pin!(self.http2.serve_connection(stream, service));
        let mut is_told = false;
        let ended = poll_fn(|cx| {
            if is_closing.get() && !is_told {
                is_told = true;
                http.as_mut().graceful_shutdown();
            }
            http.as_mut().poll(cx)
        });
        if let Err(error) = ended.await {
            tracing::debug!(remote = %connection.remote, %error, "connection ended");
        }
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

/// Counts the bounds that a connection met. A head with too many fields is not told from one that is too long.
fn count(end: &End) {
    if matches!(end, End::Head(HeadError::TooLong)) {
        Limit::HeadBytes.hit();
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
