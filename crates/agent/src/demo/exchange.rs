//! One request as a command to paste, and its answer.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use cheops_types::{Receipt, headers};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::time;

/// Longer than any agent of the demo takes to give up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request to an agent.
#[derive(Debug, Clone)]
pub(super) struct Call {
    method: Method,
    url: String,
    headers: Vec<(&'static str, String)>,
    body: Option<String>,
}

impl Call {
    pub(super) fn get(addr: SocketAddr, path: &str) -> Self {
        Self {
            method: Method::GET,
            url: format!("http://{addr}{path}"),
            headers: Vec::new(),
            body: None,
        }
    }

    pub(super) fn post(addr: SocketAddr, path: &str, body: &str) -> Self {
        Self {
            method: Method::POST,
            body: Some(body.to_owned()),
            ..Self::get(addr, path)
        }
    }

    pub(super) fn patch(addr: SocketAddr, path: &str, body: &str) -> Self {
        Self {
            method: Method::PATCH,
            ..Self::post(addr, path, body)
        }
    }

    pub(super) fn delete(addr: SocketAddr, path: &str) -> Self {
        Self {
            method: Method::DELETE,
            ..Self::get(addr, path)
        }
    }

    pub(super) fn scope(self, scope: &str) -> Self {
        self.header("X-Scope", scope)
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// The command line, broken where it gets longer than `width`.
    pub(super) fn curl(&self, width: usize) -> String {
        let mut words = vec!["curl -i".to_owned()];
        // What curl does by itself: GET, and POST with a body.
        if ![Method::GET, Method::POST].contains(&self.method) {
            words.push(format!("-X {}", self.method));
        }
        for (name, value) in &self.headers {
            words.push(format!("-H {}", quoted(&format!("{name}: {value}"))));
        }
        if let Some(body) = &self.body {
            words.push(format!("-d {}", quoted(body)));
        }
        words.push(quoted(&self.url));
        let mut text = String::new();
        let mut column = 0;
        for word in words {
            if column > 0 && column + 1 + word.len() + 2 > width {
                text.push_str(" \\\n    ");
                column = 4;
            } else if column > 0 {
                text.push(' ');
                column += 1;
            }
            column += word.len();
            text.push_str(&word);
        }
        text
    }
}

/// A word that a shell reads as it is.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) took: Duration,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    /// The body as JSON; null when it is none.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The receipt, if there is one that can be read.
    pub(super) fn receipt(&self) -> Option<Result<Receipt, String>> {
        let header = self.headers.get(headers::RECEIPT)?;
        let text = String::from_utf8_lossy(header.as_bytes());
        Some(Receipt::parse(&text).map_err(|error| format!("{error} in `{text}`")))
    }
}

/// Sends calls, with connections that are used again.
#[derive(Debug, Clone)]
pub(super) struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Client {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self(client)
    }

    pub(super) async fn send(&self, call: &Call) -> anyhow::Result<Answer> {
        let mut request = Request::builder().method(&call.method).uri(&call.url);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        if call.body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::from(call.body.clone().unwrap_or_default()))?;
        let start = Instant::now();
        let exchange = async {
            let (parts, body) = self.0.request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body,
                took: start.elapsed(),
            })
        };
        time::timeout(TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(anyhow!("no answer in time")))
            .with_context(|| format!("{} {} failed", call.method, call.url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr() -> SocketAddr {
        ([127, 0, 0, 1], 18101).into()
    }

    #[test]
    fn commands_can_be_pasted() {
        let call = Call::get(addr(), "/items?limit=2").scope("B: site2");
        assert_eq!(
            call.curl(98),
            "curl -i -H 'X-Scope: B: site2' 'http://127.0.0.1:18101/items?limit=2'"
        );
        let call = Call::post(addr(), "/items", r#"{"name":"it's"}"#);
        assert_eq!(
            call.curl(98),
            r#"curl -i -d '{"name":"it'\''s"}' http://127.0.0.1:18101/items"#
        );
    }

    #[test]
    fn long_commands_are_broken() {
        let call = Call::get(addr(), "/items").scope("site1 & site2 & site3");
        let text = call.curl(60);
        assert_eq!(
            text,
            "curl -i -H 'X-Scope: site1 & site2 & site3' \\\n    http://127.0.0.1:18101/items"
        );
        assert!(text.lines().all(|line| line.len() <= 60));
    }
}
