//! The link to one other site, from one core: HTTP/2 over mutual TLS.

use std::{cell::Cell, rc::Rc, sync::Arc, time::Duration};

use cheops_types::{Limit, Limits, SiteName};
use http::{Request, Response, Version};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    Body, Client, Clock, LocalExecutor, MeshTls, SendError, SendErrorKind, Switched, TlsError,
    exchange::Exchange,
    files,
    heard::{Greeting, Heard},
    http1::HeadLimits,
    lane::{Dialled, Lane},
    line::Line,
    place::{ClientPlaces, InFlight, Place, Places},
    send_error::describe,
    slice::Sliced,
    stream::{Stream, keep_lively},
};

#[derive(Debug, Clone, Copy)]
pub struct PeerOptions {
    pub connect_timeout_ms: u64,
    pub ping_ms: u64,
    pub inflight_max: usize,
    pub client_inflight_max: usize,
    pub idle_ms: u64,
    /// What one body may have under way.
    pub stream_window_bytes: u32,
    /// What all bodies of a connection may have under way: many times one body's, so that a few slow
    /// readers do not stop the others.
    pub window_bytes: u32,
    pub head_max_bytes: usize,
    pub head_fields_max: usize,
    pub request_stall_ms: u64,
}

impl From<&Limits> for PeerOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            connect_timeout_ms: limits.peer_connect_timeout_ms,
            ping_ms: limits.peer_ping_ms,
            inflight_max: limits.peer_inflight_max,
            client_inflight_max: limits.address_peer_inflight_max,
            idle_ms: limits.peer_idle_s * 1000,
            stream_window_bytes: limits.peer_stream_window_bytes,
            window_bytes: limits.peer_window_bytes,
            head_max_bytes: limits.head_max_bytes,
            head_fields_max: limits.head_fields_max,
            request_stall_ms: limits.request_stall_ms,
        }
    }
}

/// Which of a peer's two connections a request takes: long bodies have their own, so that short
/// requests never wait behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bulk {
    No,
    Yes,
}

pub struct PeerLink {
    site: SiteName,
    address: String,
    options: PeerOptions,
    tls_h2: Arc<rustls::ClientConfig>,
    tls_h1: Arc<rustls::ClientConfig>,
    clock: Rc<Clock>,
    short: Lane,
    bulk: Lane,
    inflight: Places,
    of_clients: ClientPlaces,
    last_used_ms: Cell<u64>,
}

impl PeerLink {
    pub fn new(
        site: SiteName,
        address: String,
        mesh: &MeshTls,
        options: PeerOptions,
        clock: Rc<Clock>,
    ) -> Result<Rc<Self>, TlsError> {
        Ok(Rc::new(Self {
            tls_h2: mesh.client(&site, b"h2")?,
            tls_h1: mesh.client(&site, b"http/1.1")?,
            site,
            address,
            options,
            short: Lane::new(clock.clone()),
            bulk: Lane::new(clock.clone()),
            clock,
            inflight: Places::default(),
            of_clients: ClientPlaces::default(),
            last_used_ms: Cell::new(0),
        }))
    }

    pub fn site(&self) -> &SiteName {
        &self.site
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends one request and waits for the head of its answer. A request that was certainly not
    /// seen is sent once more on a fresh connection before the send fails.
    pub async fn send(&self, request: Request<Body>, bulk: Bulk) -> Result<Response<Body>, SendError> {
        self.send_for(None, request, bulk).await
    }

    /// Like [`PeerLink::send`] on behalf of a client, which may have so many under way and no more.
    pub async fn send_for(
        &self,
        client: Option<Client>,
        mut request: Request<Body>,
        bulk: Bulk,
    ) -> Result<Response<Body>, SendError> {
        let busy = |limit: Limit, detail: &str| {
            limit.hit();
            SendError::not_executed(SendErrorKind::Busy, detail)
        };
        let Some(peer) = self.enter() else {
            let error = busy(Limit::PeerInflight, "too many requests under way");
            return Err(error.with_request(request));
        };
        let of_client = client.map(|client| self.of_clients.take(client, self.options.client_inflight_max));
        if let Some(None) = of_client {
            let detail = "too many requests of this client's address under way";
            return Err(busy(Limit::AddressPeerInflight, detail).with_request(request));
        }
        self.address_to_site(&mut request)?;
        let (response, connection) = self
            .lane(bulk)
            .send(request, || Box::pin(self.connect_http2()))
            .await?;
        let in_flight = InFlight {
            _connection: connection,
            _peer: Some(peer),
            _client: of_client.flatten(),
        };
        Ok(response.map(|body| Body::Counted(body, in_flight)))
    }

    /// Sends a request that may switch protocols, on an HTTP/1.1 connection of its own.
    pub async fn send_upgrade(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Body>, Option<Switched>), SendError> {
        *request.version_mut() = Version::HTTP_11;
        let stream = match self.connect(self.tls_h1.clone()).await {
            Ok(stream) => stream,
            Err(error) => return Err(error.with_request(request)),
        };
        // Each takes a file, for as long as a client likes.
        if !files::is_for_dials(stream.get_ref().0) {
            Limit::FilesReserved.hit();
            let detail = "the agent has too many files open; raise its limit of open files (`ulimit -n`)";
            return Err(SendError::not_executed(SendErrorKind::Busy, detail).with_request(request));
        }
        let limits = HeadLimits {
            bytes_max: self.options.head_max_bytes,
            fields_max: self.options.head_fields_max,
        };
        let line = Line::open(
            Stream::Tls(Box::new(stream.into())),
            limits,
            self.options.request_stall_ms,
        );
        Exchange::new(line, request).switch().await
    }

    /// Opens the short connection if there is none.
    pub async fn warm(&self) -> Result<(), SendError> {
        self.last_used_ms.set(self.clock.now_ms());
        self.short.warm(|| Box::pin(self.connect_http2())).await
    }

    /// Forgets the connections, so that the next request dials again.
    pub fn suspect(&self) {
        self.short.close();
        self.bulk.close();
    }

    /// Closes connections that nobody used for long.
    pub fn tidy(&self) {
        let idle_ms = self.clock.now_ms().saturating_sub(self.last_used_ms.get());
        if self.inflight.taken() == 0 && idle_ms > self.options.idle_ms {
            self.suspect();
        }
    }

    fn lane(&self, bulk: Bulk) -> &Lane {
        match bulk {
            Bulk::No => &self.short,
            Bulk::Yes => &self.bulk,
        }
    }

    fn enter(&self) -> Option<Place> {
        self.last_used_ms.set(self.clock.now_ms());
        self.inflight.take(self.options.inflight_max)
    }

    /// The authority is the site's name: addresses mean nothing to the other side. The caller's
    /// own `Host` travels as a header.
    fn address_to_site(&self, request: &mut Request<Body>) -> Result<(), SendError> {
        *request.version_mut() = Version::HTTP_2;
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let uri = http::Uri::builder()
            .scheme("https")
            .authority(self.site.as_str())
            .path_and_query(path)
            .build()
            .map_err(|error| SendError::not_executed(SendErrorKind::Connect, error.to_string()))?;
        *request.uri_mut() = uri;
        Ok(())
    }

    async fn connect(&self, tls: Arc<rustls::ClientConfig>) -> Result<TlsStream<TcpStream>, SendError> {
        let connect = async {
            let stream = TcpStream::connect(&self.address)
                .await
                .map_err(|error| error.to_string())?;
            keep_lively(&stream);
            // The verifier checks the site's name; rustls only wants some name here.
            let name = ServerName::try_from("site").map_err(|error| error.to_string())?;
            TlsConnector::from(tls)
                .connect(name, stream)
                .await
                .map_err(|error| format!("TLS: {error}"))
        };
        match self.clock.timeout(self.options.connect_timeout_ms, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(detail)) => {
                let detail = format!("{}: {detail}", self.address);
                Err(SendError::not_executed(SendErrorKind::Connect, detail))
            }
            Err(_) => {
                Limit::PeerConnect.hit();
                let detail = format!(
                    "{}: no connection within {} ms",
                    self.address, self.options.connect_timeout_ms
                );
                Err(SendError::not_executed(SendErrorKind::ConnectTimeout, detail))
            }
        }
    }

    async fn connect_http2(&self) -> Result<Dialled, SendError> {
        let stream = self.connect(self.tls_h2.clone()).await?;
        let (stream, heard) = Heard::listen(stream);
        let ping = Duration::from_millis(self.options.ping_ms);
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.options.stream_window_bytes)
            .initial_connection_window_size(self.options.window_bytes)
            .max_header_list_size(u32::try_from(self.options.head_max_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(ping)
            .keep_alive_timeout(ping)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(Sliced::new(stream)))
            .await
            .map_err(|error| SendError::not_executed(SendErrorKind::Connect, describe(&error)))?;
        tokio::task::spawn_local(connection);
        // The other side judges this site's certificate only after the handshake ended here. Until
        // it speaks HTTP, a request could not be told from one that executed.
        let not_heard = |kind, what| SendError::not_executed(kind, format!("{}: {what}", self.address));
        match self.clock.timeout(self.options.connect_timeout_ms, heard).await {
            Ok(Ok(Greeting { streams_max })) => Ok(Dialled {
                sender,
                streams_max: streams_max.map_or(usize::MAX, |max| max as usize),
            }),
            Ok(Err(_)) => Err(not_heard(
                SendErrorKind::Connect,
                "the site refused this site's certificate",
            )),
            Err(_) => {
                Limit::PeerConnect.hit();
                Err(not_heard(
                    SendErrorKind::ConnectTimeout,
                    "no sign of life after the TLS handshake",
                ))
            }
        }
    }
}
