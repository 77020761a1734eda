//! One request and its answer.

use std::{
    future::{Future, IntoFuture},
    net::SocketAddr,
    pin::Pin,
    time::{Duration, Instant},
};

use bytes::Bytes;
use cheops_types::{Outcome, Problem, Receipt, headers};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;

use super::{Connection, DEADLINE, ServiceTls};

/// A request to be sent. Awaiting it sends it on a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    addr: SocketAddr,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    is_http2: bool,
    tls: Option<ServiceTls>,
}

pub(crate) fn get(addr: SocketAddr, path: &str) -> Call {
    Call::new(Method::GET, addr, path)
}

pub(crate) fn head(addr: SocketAddr, path: &str) -> Call {
    Call::new(Method::HEAD, addr, path)
}

pub(crate) fn post(addr: SocketAddr, path: &str, body: impl Into<Bytes>) -> Call {
    Call::new(Method::POST, addr, path).body(body)
}

pub(crate) fn put(addr: SocketAddr, path: &str, body: impl Into<Bytes>) -> Call {
    Call::new(Method::PUT, addr, path).body(body)
}

pub(crate) fn patch(addr: SocketAddr, path: &str, body: impl Into<Bytes>) -> Call {
    Call::new(Method::PATCH, addr, path).body(body)
}

pub(crate) fn delete(addr: SocketAddr, path: &str) -> Call {
    Call::new(Method::DELETE, addr, path)
}

impl Call {
    pub(crate) fn new(method: Method, addr: SocketAddr, path: &str) -> Self {
        Self {
            addr,
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_http2: false,
            tls: None,
        }
    }

    /// Called twice, the header is there twice.
    pub(crate) fn scope(self, scope: &str) -> Self {
        self.header(headers::SCOPE, scope)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(
            HeaderName::try_from(name).unwrap(),
            HeaderValue::try_from(value).unwrap(),
        );
        self
    }

    /// Sent as JSON unless a header says otherwise.
    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn http2(mut self) -> Self {
        self.is_http2 = true;
        self
    }

    pub(crate) fn tls(mut self, tls: &ServiceTls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// Sends it on a connection that is open already, whatever address it names.
    pub(crate) async fn on(self, connection: &mut Connection) -> Answer {
        let what = self.to_string();
        self.try_on(connection)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    pub(crate) async fn try_on(self, connection: &mut Connection) -> Result<Answer, String> {
        let start = Instant::now();
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.path.parse().map_err(|_| format!("no path: {}", self.path))?;
        *request.headers_mut() = self.headers;
        if !self.body.is_empty() {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().entry(CONTENT_TYPE).or_insert(json);
        }
        let exchange = async {
            let response = connection.send(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| format!("{error:?}"))?;
            Ok(Answer {
                status: head.status.as_u16(),
                version: head.version,
                headers: head.headers,
                trailers: body.trailers().cloned(),
                body: body.to_bytes(),
                elapsed: start.elapsed(),
            })
        };
        tokio::time::timeout(DEADLINE, exchange)
            .await
            .map_err(|_| "no answer before the deadline".to_owned())?
    }

    /// Like awaiting it, but a lost connection is a result.
    pub(crate) async fn try_send(self) -> Result<Answer, String> {
        let start = Instant::now();
        let mut connection = Connection::try_open(self.addr, self.is_http2, self.tls.as_ref()).await?;
        let mut answer = self.try_on(&mut connection).await?;
        answer.elapsed = start.elapsed();
        Ok(answer)
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}{}", self.method, self.addr, self.path)
    }
}

impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let what = self.to_string();
            self.try_send()
                .await
                .unwrap_or_else(|error| panic!("{what}: {error}"))
        })
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) body: Bytes,
    pub(crate) elapsed: Duration,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The receipt, which must be there.
    #[track_caller]
    pub(crate) fn receipt(&self) -> Receipt {
        let text = self.header(headers::RECEIPT);
        let text = text.unwrap_or_else(|| panic!("no receipt: {self:?}"));
        Receipt::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The receipt's sites and outcomes, e.g. `site2=not-executed site3=executed`.
    #[track_caller]
    pub(crate) fn outcomes(&self) -> String {
        let visits = self.receipt().sites;
        let told: Vec<_> = visits
            .iter()
            .map(|visit| format!("{}={}", visit.site, visit.outcome))
            .collect();
        told.join(" ")
    }

    /// The sites that executed, by the receipt.
    #[track_caller]
    pub(crate) fn executed_at(&self) -> Vec<String> {
        let visits = self.receipt().sites.into_iter();
        visits
            .filter(|visit| visit.outcome == Outcome::Executed)
            .map(|visit| visit.site.to_string())
            .collect()
    }

    /// Checks that this is a problem with a code and its status; gives its JSON.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some(Problem::CONTENT_TYPE),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem:#}");
        assert_eq!(problem["status"].to_string(), status.to_string(), "{problem:#}");
        problem
    }

    /// Checks the status.
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}
