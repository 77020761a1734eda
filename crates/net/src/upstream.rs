//! Sending a request to a service of this site, from one core.

use std::{rc::Rc, sync::Arc, time::Duration};

use cheops_types::Limits;
use http::{HeaderValue, Method, Request, Response, Version, request};
use http_body::Body as _;
use hyper::{
    client::conn::{http1, http2},
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{
    Body, Clock, LocalExecutor, SendError, SendErrorKind,
    lane::Lane,
    pool::{Pool, Taken},
    send_error::describe,
    stream::Stream,
};

/// How often, and for how long, an HTTP/2 connection to a service is asked for a sign of life while
/// requests wait on it.
const PING: Duration = Duration::from_secs(10);

/// The versions of HTTP that a service is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamHttp {
    /// HTTP/1.1; HTTP/2 for gRPC.
    #[default]
    Auto,
    Http1,
    Http2,
}

/// Where a service listens.
#[derive(Clone)]
pub struct UpstreamTarget {
    pub host: String,
    pub port: u16,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    pub http: UpstreamHttp,
}

impl UpstreamTarget {
    /// Host and port as in a `Host` header.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct UpstreamOptions {
    pub idle_max: usize,
    pub connect_timeout_ms: u64,
    pub head_fields_max: usize,
    pub head_max_bytes: usize,
}

impl From<&Limits> for UpstreamOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            idle_max: limits.upstream_idle_max,
            connect_timeout_ms: limits.upstream_connect_timeout_ms,
            head_fields_max: limits.head_fields_max,
            head_max_bytes: limits.head_max_bytes,
        }
    }
}

/// One service as seen from one core.
pub struct Upstream {
    target: UpstreamTarget,
    options: UpstreamOptions,
    clock: Rc<Clock>,
    pool: Rc<Pool>,
    lane: Lane,
}

impl Upstream {
    pub fn new(target: UpstreamTarget, options: UpstreamOptions, clock: Rc<Clock>) -> Rc<Self> {
        let pool = Pool::new(options.idle_max, clock.clone());
        Rc::new(Self {
            target,
            options,
            clock,
            pool,
            lane: Lane::default(),
        })
    }

    pub fn target(&self) -> &UpstreamTarget {
        &self.target
    }

    /// Sends one request. Its URI is in origin form with a `Host` header. A request that was
    /// certainly not seen is sent once more on a fresh connection before the send fails.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, SendError> {
        // Everything but an idle HTTP/1.1 connection is boxed, to keep the usual case small.
        if self.speaks_http2(&request) {
            return Box::pin(self.send_http2(request)).await;
        }
        *request.version_mut() = Version::HTTP_11;
        keep_body(&mut request);
        let Some(Taken { sender, is_suspect }) = self.pool.take().await else {
            return Box::pin(self.send_fresh(request)).await;
        };
        let copy = if is_suspect { copy_of_safe(&request) } else { None };
        let mut error = match self.send_on(sender, request).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        match error.request.take().or(copy) {
            Some(request) => Box::pin(self.send_fresh(*request)).await,
            None => Err(error),
        }
    }

    fn speaks_http2(&self, request: &Request<Body>) -> bool {
        match self.target.http {
            UpstreamHttp::Http1 => false,
            UpstreamHttp::Http2 => true,
            UpstreamHttp::Auto => is_grpc(request),
        }
    }

    async fn send_fresh(&self, request: Request<Body>) -> Result<Response<Body>, SendError> {
        match self.connect_http1().await {
            Ok(sender) => self.send_on(sender, request).await,
            Err(error) => Err(error.with_request(request)),
        }
    }

    async fn send_on(
        &self,
        mut sender: http1::SendRequest<Body>,
        request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        let progress = request.body().progress();
        match sender.try_send_request(request).await {
            Ok(response) => {
                let mut lease = self.pool.lease(sender, progress);
                let (mut head, incoming) = response.into_parts();
                // The version is each hop's own; a service of HTTP/1.0 must not make this hop one.
                head.version = Version::HTTP_11;
                if incoming.is_end_stream() {
                    lease.finish();
                    return Ok(Response::from_parts(head, Body::Empty));
                }
                Ok(Response::from_parts(head, Body::Leased(incoming, lease)))
            }
            Err(mut error) => match error.take_message() {
                Some(request) => Err(
                    SendError::not_executed(SendErrorKind::Broken, describe(error.error()))
                        .with_request(request),
                ),
                None => Err(SendError::from_hyper(error.error())),
            },
        }
    }

    /// Sends a request that may switch protocols, on a connection of its own.
    pub async fn send_upgrade(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Body>, OnUpgrade), SendError> {
        *request.version_mut() = Version::HTTP_11;
        let mut sender = match self.connect_upgradable().await {
            Ok(sender) => sender,
            Err(error) => return Err(error.with_request(request)),
        };
        let mut response = sender
            .send_request(request)
            .await
            .map_err(|error| SendError::from_hyper(&error))?;
        let on_upgrade = hyper::upgrade::on(&mut response);
        Ok((response.map(Body::Incoming), on_upgrade))
    }

    async fn send_http2(&self, mut request: Request<Body>) -> Result<Response<Body>, SendError> {
        let authority = self.target.authority();
        absolute_form(&mut request, self.target.tls.is_some(), &authority)?;
        let response = self.lane.send(request, || Box::pin(self.connect_http2())).await?;
        Ok(response.map(Body::Incoming))
    }

    async fn connect(&self, alpn_h2: bool) -> Result<Stream, SendError> {
        let connect = async {
            let stream = TcpStream::connect((self.target.host.as_str(), self.target.port))
                .await
                .map_err(|error| error.to_string())?;
            let _ = stream.set_nodelay(true);
            let Some(config) = &self.target.tls else {
                return Ok::<_, String>(Stream::Plain(stream));
            };
            let name = ServerName::try_from(self.target.host.clone()).map_err(|error| error.to_string())?;
            let mut config = config.clone();
            if alpn_h2 {
                Arc::make_mut(&mut config).alpn_protocols = vec![b"h2".to_vec()];
            }
            let stream = TlsConnector::from(config)
                .connect(name, stream)
                .await
                .map_err(|error| error.to_string())?;
            Ok(Stream::Tls(Box::new(stream)))
        };
        match self.clock.timeout(self.options.connect_timeout_ms, connect).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(detail)) => Err(SendError::not_executed(SendErrorKind::Connect, detail)),
            Err(_) => {
                cheops_types::Limit::UpstreamConnect.hit();
                Err(SendError::not_executed(
                    SendErrorKind::ConnectTimeout,
                    "no connection in time",
                ))
            }
        }
    }

    fn http1(&self) -> http1::Builder {
        crate::http1::client(self.options.head_fields_max, self.options.head_max_bytes)
    }

    async fn connect_http1(&self) -> Result<http1::SendRequest<Body>, SendError> {
        let stream = self.connect(false).await?;
        let (sender, connection) = self
            .http1()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(no_handshake)?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }

    async fn connect_upgradable(&self) -> Result<http1::SendRequest<Body>, SendError> {
        let stream = self.connect(false).await?;
        let (sender, connection) = self
            .http1()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(no_handshake)?;
        tokio::task::spawn_local(connection.with_upgrades());
        Ok(sender)
    }

    async fn connect_http2(&self) -> Result<http2::SendRequest<Body>, SendError> {
        let stream = self.connect(true).await?;
        let mut builder = http2::Builder::new(LocalExecutor);
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .max_header_list_size(u32::try_from(self.options.head_max_bytes).unwrap_or(u32::MAX));
        let (sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(no_handshake)?;
        tokio::task::spawn_local(connection);
        Ok(sender)
    }
}

#[allow(clippy::needless_pass_by_value)] // the shape that `map_err` wants
fn no_handshake(error: hyper::Error) -> SendError {
    SendError::not_executed(SendErrorKind::Connect, describe(&error))
}

fn is_grpc(request: &Request<Body>) -> bool {
    request
        .headers()
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// hyper sends no body of unknown length with a GET or HEAD unless the head announces it.
fn keep_body(request: &mut Request<Body>) {
    if matches!(*request.method(), Method::GET | Method::HEAD)
        && !request.body().is_end_stream()
        && request.body().size_hint().exact().is_none()
    {
        request.headers_mut().insert(
            http::header::TRANSFER_ENCODING,
            HeaderValue::from_static("chunked"),
        );
    }
}

/// A copy of a request that may be repeated and has no body.
fn copy_of_safe(request: &Request<Body>) -> Option<Box<Request<Body>>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        || !request.body().is_end_stream()
    {
        return None;
    }
    let (mut head, ()) = Request::new(()).into_parts();
    let request::Parts {
        method,
        uri,
        version,
        headers,
        ..
    } = &mut head;
    *method = request.method().clone();
    *uri = request.uri().clone();
    *version = request.version();
    *headers = request.headers().clone();
    Some(Box::new(Request::from_parts(head, Body::Empty)))
}

/// HTTP/2 wants scheme and authority; the `Host` header gives the authority where there is one.
pub(crate) fn absolute_form(
    request: &mut Request<Body>,
    is_tls: bool,
    default_authority: &str,
) -> Result<(), SendError> {
    *request.version_mut() = Version::HTTP_2;
    let host = request.headers_mut().remove(http::header::HOST);
    let authority = host
        .as_ref()
        .and_then(|host| host.to_str().ok())
        .unwrap_or(default_authority);
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    let uri = http::Uri::builder()
        .scheme(if is_tls { "https" } else { "http" })
        .authority(authority)
        .path_and_query(path)
        .build()
        .map_err(|error| SendError::not_executed(SendErrorKind::Connect, error.to_string()))?;
    *request.uri_mut() = uri;
    Ok(())
}
