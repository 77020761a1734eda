//! Sending a request to a service of this site, from one core.

mod dial;
mod form;

use std::{cell::Cell, future::poll_fn, rc::Rc, sync::Arc};

use cheops_types::{Limit, Limits, Outcome};
use http::{Request, Response};

use crate::{
    Body, Clock, SendError, SendErrorKind, Switched,
    exchange::Exchange,
    lane::{Lane, Seat},
    line::LineRef,
    place::InFlight,
    pool::{Pool, Taken},
};
use dial::{Dialler, Fresh, Offer};

/// The versions of HTTP that a service is spoken to in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpstreamHttp {
    /// Over TLS what the service prefers, else HTTP/1.1; HTTP/2 for gRPC.
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
    pub request_stall_ms: u64,
    /// Requests under way on one HTTP/2 connection.
    pub streams_max: usize,
    /// What one HTTP/2 body may have under way.
    pub stream_window_bytes: u32,
}

impl From<&Limits> for UpstreamOptions {
    fn from(limits: &Limits) -> Self {
        Self {
            idle_max: limits.upstream_idle_max,
            connect_timeout_ms: limits.upstream_connect_timeout_ms,
            head_fields_max: limits.head_fields_max,
            head_max_bytes: limits.head_max_bytes,
            request_stall_ms: limits.request_stall_ms,
            streams_max: limits.upstream_streams_max,
            stream_window_bytes: limits.upstream_stream_window_bytes,
        }
    }
}

/// One service as seen from one core.
pub struct Upstream {
    target: UpstreamTarget,
    dialler: Dialler,
    pool: Rc<Pool>,
    lane: Lane,
    /// The service chose HTTP/1.1 when it had the choice last.
    chose_http1: Cell<bool>,
}

/// What a request can be sent on.
enum Way {
    Seat(Seat),
    Fresh(LineRef),
    /// A connection of HTTP/1.1 of its own: the one that was dialled meanwhile is another request's.
    Http1,
}

impl Upstream {
    pub fn new(target: UpstreamTarget, options: UpstreamOptions, clock: Rc<Clock>) -> Rc<Self> {
        Rc::new(Self {
            dialler: Dialler::new(&target, options, clock.clone()),
            pool: Pool::new(options.idle_max, clock.clone()),
            lane: Lane::new(clock),
            chose_http1: Cell::new(false),
            target,
        })
    }

    pub fn target(&self) -> &UpstreamTarget {
        &self.target
    }

    /// Sends one request. Its URI is in origin form with a `Host` header. A request that was
    /// certainly not seen is sent once more on a fresh connection before the send fails.
    pub fn send(
        &self,
        mut request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, SendError>> {
        let offer = self.offer(&request);
        // Everything but an idle HTTP/1.1 connection is boxed, to keep the usual case small. For the same
        // reason this is one block: every further `async fn` has room for its arguments twice, and moves them.
        async move {
            if offer == Offer::Http2 || (offer == Offer::Either && !self.chose_http1.get()) {
                return Box::pin(self.send_shared(request, offer)).await;
            }
            let Some(Taken { line, is_suspect }) = self.pool.take().await else {
                return Box::pin(self.send_fresh(request, offer)).await;
            };
            let copy = if is_suspect {
                form::copy_of_safe(&request)
            } else {
                None
            };
            form::http1(&mut request);
            let mut exchange = Exchange::new(line, request);
            let mut error = match poll_fn(|cx| exchange.poll_response(cx, Some(&self.pool))).await {
                Err(error) => error,
                answered => return answered,
            };
            match error.request.take().or(copy) {
                Some(request) => Box::pin(self.send_fresh(*request, offer)).await,
                None => Err(error),
            }
        }
    }

    fn offer(&self, request: &Request<Body>) -> Offer {
        let is_tls = self.target.tls.is_some();
        match self.target.http {
            UpstreamHttp::Http1 => Offer::Http1,
            UpstreamHttp::Http2 => Offer::Http2,
            UpstreamHttp::Auto => match form::is_grpc(request) {
                true => Offer::Http2,
                false if is_tls => Offer::Either,
                false => Offer::Http1,
            },
        }
    }

    // === HTTP/1.1: a connection for each request under way ===

    async fn send_fresh(&self, request: Request<Body>, offer: Offer) -> Result<Response<Body>, SendError> {
        match self.dialler.dial(offer).await {
            Ok(Fresh::Http1(line)) => self.send_on(line, request).await,
            // The service has learnt it since.
            Ok(Fresh::Http2(dialled)) => {
                self.chose_http1.set(false);
                match self.lane.adopt(dialled) {
                    Ok(seat) => self.send_seated(seat, request).await,
                    Err(error) => Err(error.with_request(request)),
                }
            }
            Err(error) => Err(error.with_request(request)),
        }
    }

    async fn send_on(&self, line: LineRef, mut request: Request<Body>) -> Result<Response<Body>, SendError> {
        form::http1(&mut request);
        let mut exchange = Exchange::new(line, request);
        poll_fn(|cx| exchange.poll_response(cx, Some(&self.pool))).await
    }

    /// Sends a request that may switch protocols, on a connection of its own.
    pub async fn send_upgrade(
        &self,
        mut request: Request<Body>,
    ) -> Result<(Response<Body>, Option<Switched>), SendError> {
        form::http1(&mut request);
        match self.dialler.dial_upgradable().await {
            Ok(line) => Exchange::new(line, request).switch().await,
            Err(error) => Err(error.with_request(request)),
        }
    }

    // === HTTP/2: connections that requests share ===

    async fn send_shared(&self, request: Request<Body>, offer: Offer) -> Result<Response<Body>, SendError> {
        let copy = form::copy_of_safe(&request);
        let mut is_suspect = false;
        let mut error = match self.send_some_way(request, offer, &mut is_suspect).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let may_repeat =
            error.kind == SendErrorKind::Broken && (error.outcome == Outcome::NotExecuted || is_suspect);
        match error.request.take().or(copy) {
            Some(request) if may_repeat => self.send_some_way(*request, offer, &mut is_suspect).await,
            _ => Err(error),
        }
    }

    async fn send_some_way(
        &self,
        request: Request<Body>,
        offer: Offer,
        is_suspect: &mut bool,
    ) -> Result<Response<Body>, SendError> {
        match self.way(offer).await {
            Ok(Way::Seat(seat)) => {
                *is_suspect = seat.is_suspect;
                self.send_seated(seat, request).await
            }
            Ok(Way::Fresh(line)) => self.send_on(line, request).await,
            Ok(Way::Http1) => Box::pin(self.send_fresh(request, offer)).await,
            Err(error) => Err(error.with_request(request)),
        }
    }

    async fn way(&self, offer: Offer) -> Result<Way, SendError> {
        let ready = || {
            if offer == Offer::Either && self.chose_http1.get() {
                return Some(Way::Http1);
            }
            self.lane.seat().map(Way::Seat)
        };
        let dial = || async {
            if self.lane.is_open() {
                Limit::UpstreamStreams.hit();
            }
            match self.dialler.dial(offer).await? {
                Fresh::Http2(dialled) => self.lane.adopt(dialled).map(Way::Seat),
                Fresh::Http1(line) => {
                    self.chose_http1.set(true);
                    Ok(Way::Fresh(line))
                }
            }
        };
        self.lane.gate.pass(ready, || Box::pin(dial())).await
    }

    async fn send_seated(&self, seat: Seat, mut request: Request<Body>) -> Result<Response<Body>, SendError> {
        form::http2(&mut request, self.target.tls.is_some(), || {
            self.target.authority()
        })?;
        let (response, connection) = self.lane.send_on(seat, request).await?;
        let in_flight = InFlight {
            _connection: connection,
            _peer: None,
            _client: None,
        };
        Ok(response.map(|body| Body::Counted(body, in_flight)))
    }
}
