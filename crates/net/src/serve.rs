//! One client connection from its first byte to its last.

use std::{
    cell::Cell,
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use cheops_types::{Limit, SiteName};
use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;

use crate::{Body, Clock, Deadline, LocalExecutor, drain::DrainMember, tls::site_of};

const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// The bounds of a listener's connections.
#[derive(Debug, Clone, Copy)]
pub struct ServeOptions {
    pub head_max_bytes: usize,
    pub head_fields_max: usize,
    pub head_timeout_ms: u64,
    pub drain_timeout_ms: u64,
    pub connections_max: usize,
    pub streams_max: u32,
}

/// What is known about a connection apart from its requests.
pub struct Connection<T> {
    /// What the listener is for.
    pub tag: T,
    pub remote: SocketAddr,
    /// The site that the client's certificate names; only ever set on a port that demands one.
    pub peer: Option<SiteName>,
    pub is_tls: bool,
    has_begun: Cell<bool>,
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
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) options: ServeOptions,
    pub(crate) clock: Rc<Clock>,
    pub(crate) http: auto::Builder<LocalExecutor>,
}

pub(crate) fn http_builder(options: &ServeOptions) -> auto::Builder<LocalExecutor> {
    let mut builder = auto::Builder::new(LocalExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(options.head_timeout_ms))
        .max_headers(options.head_fields_max)
        .max_buf_size(options.head_max_bytes.max(8 * 1024));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(u32::try_from(options.head_max_bytes).unwrap_or(u32::MAX));
    builder
}

impl<H: Handler> Acceptor<H> {
    pub(crate) async fn serve(self: Rc<Self>, stream: TcpStream, remote: SocketAddr, member: DrainMember) {
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            let connection = self.connection(remote, None, false);
            return self.serve_stream(stream, connection, member).await;
        };
        let accept = TlsAcceptor::from(tls.clone()).accept(stream);
        match self.clock.timeout(self.options.head_timeout_ms, accept).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let peer = certificates.and_then(|chain| chain.first()).and_then(site_of);
                let connection = self.connection(remote, peer, true);
                self.serve_stream(stream, connection, member).await;
            }
            Ok(Err(error)) => tracing::debug!(%remote, %error, "TLS handshake failed"),
            Err(_) => Limit::HeadTimeout.hit(),
        }
    }

    fn connection(&self, remote: SocketAddr, peer: Option<SiteName>, is_tls: bool) -> Rc<Connection<H::Tag>> {
        Rc::new(Connection {
            tag: self.tag.clone(),
            remote,
            peer,
            is_tls,
            has_begun: Cell::new(false),
        })
    }

    async fn serve_stream<S>(&self, stream: S, connection: Rc<Connection<H::Tag>>, member: DrainMember)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| {
            connection.has_begun.set(true);
            // Not wrapped in another future: the whole state of a request would be moved once more.
            self.handler.clone().handle(connection.clone(), request)
        });
        let mut http = pin!(
            self.http
                .serve_connection_with_upgrades(TokioIo::new(stream), service)
        );
        // Until the first request HTTP has not begun, and so its own time limit has not either.
        let mut silence = Some(self.clock.deadline(self.options.head_timeout_ms));
        let mut forced_end: Option<Deadline> = None;
        std::future::poll_fn(|cx| {
            if forced_end.is_none() && member.should_end(cx) {
                forced_end = Some(self.clock.deadline(self.options.drain_timeout_ms));
                http.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(result) = http.as_mut().poll(cx) {
                if let Err(error) = result {
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
