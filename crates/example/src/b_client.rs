//! How A asks B.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, uri::Scheme};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use crate::{carry::Carry, failure::Failure};

/// Longest time until B's answer is there.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest answer of B that is read.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// How much of an unexpected answer is quoted.
const QUOTE_MAX_CHARS: usize = 300;

/// What B said.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The failure to report when the answer is not one that A can use.
    pub(crate) fn unexpected(&self) -> Failure {
        let text = String::from_utf8_lossy(&self.body);
        let quote: String = text.trim().chars().take(QUOTE_MAX_CHARS).collect();
        Failure::new(
            StatusCode::BAD_GATEWAY,
            format!("B answered {}: {quote}", self.status.as_u16()),
        )
    }
}

/// B as A sees it: an address, and connections that are used again.
pub(crate) struct BClient {
    addr: SocketAddr,
    carry: Carry,
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl BClient {
    pub(crate) fn new(addr: SocketAddr, carry: Carry) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { addr, carry, client }
    }

    /// `GET path` on behalf of a request with the header fields `incoming`.
    pub(crate) async fn get(&self, path: &str, incoming: &HeaderMap) -> Result<Answer, Failure> {
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(self.addr.to_string())
            .path_and_query(path)
            .build()
            .map_err(|error| Failure::malformed(error.to_string()))?;
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = self.carry.select(incoming);
        let exchange = async {
            let response = self
                .client
                .request(request)
                .await
                .map_err(|error| unreachable(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES)
                .collect()
                .await
                .map_err(|error| unreachable(&*error))?
                .to_bytes();
            Ok(Answer { status, body })
        };
        tokio::time::timeout(ANSWER_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(Failure::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "B did not answer in time",
                ))
            })
    }
}

fn unreachable(error: &dyn std::error::Error) -> Failure {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    Failure::new(StatusCode::BAD_GATEWAY, format!("B cannot be reached: {reason}"))
}
