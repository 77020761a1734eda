//! Asks a running agent over its admin socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::net::UnixStream;

/// An agent answers from memory; only a reload reads files, and replication asks other sites.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Far above the answer of an agent with thousands of sites.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("no agent answers at {0}; start one with `cheops run`, or name its socket with --admin")]
    NoAgent(PathBuf),
    #[error("you may not use {0}: run this as the user that runs the agent")]
    Forbidden(PathBuf),
    #[error("the agent at {path} did not answer as expected: {reason}")]
    Broken { path: PathBuf, reason: String },
    /// The agent refused; the value is its `application/problem+json`.
    #[error("{}", detail(.problem))]
    Refused { status: StatusCode, problem: Value },
}

impl ClientError {
    /// Whether the one who asked is at fault.
    pub(crate) fn is_bad_input(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if status.is_client_error())
    }
}

/// What a segment or a value may not have; ids of operations have `:`, and stay legible.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A path of segments that may hold any text, with the parameters that have a value.
pub(crate) fn path(segments: &[&str], parameters: &[(&str, Option<&str>)]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ESCAPED));
    }
    let mut mark = '?';
    for (name, value) in parameters {
        if let Some(value) = value {
            path.push(mark);
            path.push_str(name);
            path.push('=');
            path.extend(utf8_percent_encode(value, ESCAPED));
            mark = '&';
        }
    }
    path
}

/// Where an agent listens. Every call is one connection.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(crate) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, Bytes::new(), ANSWER_TIMEOUT).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::DELETE, path, Bytes::new(), ANSWER_TIMEOUT).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.post_within(path, body, ANSWER_TIMEOUT).await
    }

    /// For what the agent does not answer from memory.
    pub(crate) async fn post_within<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.broken(&error))?;
        self.ask(Method::POST, path, body.into(), patience).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<T, ClientError> {
        let (status, body) = tokio::time::timeout(patience, self.exchange(method, path, body))
            .await
            .map_err(|_| self.broken(&format!("nothing after {} s", patience.as_secs())))??;
        if status.is_success() {
            serde_json::from_slice(&body).map_err(|error| self.broken(&error))
        } else {
            let problem = serde_json::from_slice(&body)
                .map_err(|_| self.broken(&format!("status {status} without an explanation")))?;
            Err(ClientError::Refused { status, problem })
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.unconnected(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.broken(&error))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| self.broken(&error))?;
        let answer = async {
            let response = sender
                .send_request(request)
                .await
                .map_err(|error| self.broken(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_MAX_BYTES)
                .collect()
                .await
                .map_err(|error| self.broken(&error))?;
            Ok((status, body.to_bytes()))
        };
        // The connection is driven beside the call and ends with it.
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            ended = &mut connection => ended.map_err(|error| self.broken(&error))?,
        }
        answer.await
    }

    fn unconnected(&self, error: &io::Error) -> ClientError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NoAgent(self.socket.clone())
            }
            io::ErrorKind::PermissionDenied => ClientError::Forbidden(self.socket.clone()),
            _ => self.broken(error),
        }
    }

    fn broken(&self, reason: &(impl ToString + ?Sized)) -> ClientError {
        ClientError::Broken {
            path: self.socket.clone(),
            reason: reason.to_string(),
        }
    }
}

fn detail(problem: &Value) -> String {
    let text = |member: &str| problem.get(member).and_then(Value::as_str);
    match (text("detail"), text("code")) {
        (Some(detail), Some(code)) => format!("{detail} ({code})"),
        (Some(detail), None) => detail.to_owned(),
        _ => problem.to_string(),
    }
}
