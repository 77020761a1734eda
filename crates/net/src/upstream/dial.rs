//! Opening a connection to a service, in the version of HTTP that both sides speak.

use std::{rc::Rc, sync::Arc, time::Duration};

use cheops_types::Limit;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{UpstreamOptions, UpstreamTarget};
use crate::{
    Clock, LocalExecutor, SendError, SendErrorKind, files,
    heard::{Greeting, Heard},
    http1::HeadLimits,
    lane::Dialled,
    line::{Line, LineRef},
    send_error::describe,
    stream::{self, Stream},
};

/// How often, and for how long, an HTTP/2 connection to a service is asked for a sign of life while
/// requests wait on it.
const PING: Duration = Duration::from_secs(10);

/// No shorter bound of an answer's head is kept.
const HEAD_MAX_MIN_BYTES: usize = 64 * 1024;

/// The largest window that HTTP/2 has.
const WINDOW_MAX_BYTES: u32 = (1 << 31) - 1;

/// The versions of HTTP that a dial may come back with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    Http1,
    Http2,
    /// What the service prefers, by ALPN; without TLS that is HTTP/1.1.
    Either,
}

/// A fresh connection.
pub(super) enum Fresh {
    Http1(LineRef),
    Http2(Dialled),
}

/// TLS towards a service, once per offer.
struct Tls {
    http1: Arc<rustls::ClientConfig>,
    http2: Arc<rustls::ClientConfig>,
    either: Arc<rustls::ClientConfig>,
}

impl Tls {
    fn new(config: &Arc<rustls::ClientConfig>) -> Self {
        let offering = |protocols: &[&[u8]]| {
            let mut config = rustls::ClientConfig::clone(config);
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        Self {
            // A service that knows no ALPN at all takes HTTP/1.1 for granted.
            http1: offering(&[]),
            http2: offering(&[b"h2"]),
            either: offering(&[b"h2", b"http/1.1"]),
        }
    }

    fn of(&self, offer: Offer) -> Arc<rustls::ClientConfig> {
        match offer {
            Offer::Http1 => self.http1.clone(),
            Offer::Http2 => self.http2.clone(),
            Offer::Either => self.either.clone(),
        }
    }
}

/// The way to one service.
pub(super) struct Dialler {
    host: String,
    port: u16,
    tls: Option<Tls>,
    options: UpstreamOptions,
    clock: Rc<Clock>,
}

impl Dialler {
    pub(super) fn new(target: &UpstreamTarget, options: UpstreamOptions, clock: Rc<Clock>) -> Self {
        Self {
            host: target.host.clone(),
            port: target.port,
            tls: target.tls.as_ref().map(Tls::new),
            options,
            clock,
        }
    }

    pub(super) async fn dial(&self, offer: Offer) -> Result<Fresh, SendError> {
        self.in_time(async {
            let (stream, speaks_http2) = self.connect(offer).await?;
            if speaks_http2 {
                self.greet(stream).await.map(Fresh::Http2)
            } else {
                Ok(Fresh::Http1(self.line(stream)))
            }
        })
        .await
    }

    /// A connection of HTTP/1.1 that may switch to another protocol.
    pub(super) async fn dial_upgradable(&self) -> Result<LineRef, SendError> {
        self.in_time(async {
            let (stream, _) = self.connect(Offer::Http1).await?;
            Ok(self.line(stream))
        })
        .await
    }

    async fn in_time<T>(&self, dial: impl Future<Output = Result<T, Failure>>) -> Result<T, SendError> {
        match self.clock.timeout(self.options.connect_timeout_ms, dial).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(Failure(detail))) => Err(SendError::not_executed(SendErrorKind::Connect, detail)),
            Err(_) => {
                Limit::UpstreamConnect.hit();
                Err(SendError::not_executed(
                    SendErrorKind::ConnectTimeout,
                    "no connection in time",
                ))
            }
        }
    }

    /// Connects; says whether the connection speaks HTTP/2.
    async fn connect(&self, offer: Offer) -> Result<(Stream, bool), Failure> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        if !files::is_for_dials(&stream) {
            Limit::FilesReserved.hit();
            let detail = "the agent has too many files open; raise its limit of open files (`ulimit -n`)";
            return Err(Failure(detail.to_owned()));
        }
        stream::keep_lively(&stream);
        let Some(tls) = &self.tls else {
            return Ok((Stream::Plain(stream), offer == Offer::Http2));
        };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| Failure(error.to_string()))?;
        let stream = TlsConnector::from(tls.of(offer)).connect(name, stream).await?;
        let speaks_http2 = match offer {
            Offer::Http1 => false,
            Offer::Http2 => true,
            Offer::Either => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        };
        Ok((Stream::Tls(Box::new(stream.into())), speaks_http2))
    }

    fn line(&self, stream: Stream) -> LineRef {
        let limits = HeadLimits {
            bytes_max: self.options.head_max_bytes.max(HEAD_MAX_MIN_BYTES),
            fields_max: self.options.head_fields_max,
        };
        Line::open(stream, limits, self.options.request_stall_ms)
    }

    /// Begins HTTP/2 and waits for the service's own beginning: that tells how many requests it takes at
    /// once, and that it did not refuse this agent's certificate, which it judges after the handshake
    /// ended here.
    async fn greet(&self, stream: Stream) -> Result<Dialled, Failure> {
        let UpstreamOptions {
            streams_max,
            stream_window_bytes,
            head_max_bytes,
            ..
        } = self.options;
        // Room for every body at once: one that nobody reads never holds back the others.
        let window_bytes = u32::try_from(streams_max)
            .unwrap_or(u32::MAX)
            .saturating_mul(stream_window_bytes)
            .min(WINDOW_MAX_BYTES);
        let (stream, heard) = Heard::listen(stream);
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .initial_stream_window_size(stream_window_bytes.min(WINDOW_MAX_BYTES))
            .initial_connection_window_size(window_bytes)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .max_header_list_size(u32::try_from(head_max_bytes).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::task::spawn_local(connection);
        let Ok(Greeting { streams_max: allowed }) = heard.await else {
            let detail = "the service ended the connection before HTTP/2 began";
            return Err(Failure(detail.to_owned()));
        };
        let allowed = allowed.map_or(usize::MAX, |max| max as usize);
        Ok(Dialled {
            sender,
            streams_max: streams_max.min(allowed),
        })
    }
}

/// Why there is no connection, in words.
struct Failure(String);

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self(describe(&error))
    }
}
