//! Why a request got no answer, and whether the other side can have seen it.

use std::{error::Error as _, fmt};

use cheops_types::Outcome;
use http::Request;

use crate::Body;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendErrorKind {
    /// No connection: the address did not resolve, refused, or TLS failed.
    Connect,
    /// No connection within the time allowed.
    ConnectTimeout,
    /// No answer within the time allowed.
    Timeout,
    /// The connection broke before the answer.
    Broken,
    /// Too many requests are under way.
    Busy,
}

/// A failed send. `outcome` is [`Outcome::NotExecuted`] only when the other side certainly did not
/// see the request.
pub struct SendError {
    pub kind: SendErrorKind,
    pub outcome: Outcome,
    pub detail: String,
    /// The request, untouched, where it was never sent.
    pub request: Option<Box<Request<Body>>>,
}

impl SendError {
    pub fn not_executed(kind: SendErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            outcome: Outcome::NotExecuted,
            detail: detail.into(),
            request: None,
        }
    }

    pub fn unknown(kind: SendErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            outcome: Outcome::Unknown,
            detail: detail.into(),
            request: None,
        }
    }

    /// No answer came in time; the other side may still be at it.
    pub fn timeout(after_ms: u64) -> Self {
        Self::unknown(SendErrorKind::Timeout, format!("no answer within {after_ms} ms"))
    }

    pub(crate) fn with_request(mut self, request: Request<Body>) -> Self {
        self.request = Some(Box::new(request));
        self
    }

    /// Classifies a hyper error of a request that was handed to a connection.
    pub(crate) fn from_hyper(error: &hyper::Error) -> Self {
        let detail = describe(error);
        if refused_by_h2(error) {
            Self::not_executed(SendErrorKind::Broken, detail)
        } else {
            Self::unknown(SendErrorKind::Broken, detail)
        }
    }
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.kind, self.outcome, self.detail)
    }
}

/// The whole chain of causes in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// REFUSED_STREAM, or a graceful GOAWAY below the stream: the other side's promise that it did not
/// process the request. A GOAWAY with an error can also end streams that were being processed.
fn refused_by_h2(error: &hyper::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(h2) = cause.downcast_ref::<h2::Error>() {
            return match h2.reason() {
                Some(h2::Reason::REFUSED_STREAM) => h2.is_reset() && h2.is_remote(),
                Some(h2::Reason::NO_ERROR) => h2.is_go_away() && h2.is_remote(),
                _ => false,
            };
        }
        source = cause.source();
    }
    false
}
