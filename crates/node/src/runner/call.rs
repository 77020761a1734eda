//! One call of this site's application.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cheops_net::Body;
use cheops_types::{Code, Limit, Outcome, Problem, ServiceName};
use http::{HeaderName, HeaderValue, Request, header::ACCEPT_ENCODING};
use http_body_util::BodyExt as _;

use super::{
    Hands,
    render::{Content, Order},
    spooled,
};
use crate::{ports::Failed, waiting::AppAnswer};

impl Hands {
    /// Sends a request and reads its answer, as far as it may be kept.
    pub(super) async fn call(
        &self,
        service: &ServiceName,
        order: Order,
        scope: &str,
    ) -> Result<AppAnswer, Failed> {
        let request = self.request(order)?;
        let limits = self.core.surroundings.limits();
        let answer = self.application.call(service, request, scope).await?;
        let (head, body) = answer.into_parts();
        let patience = Duration::from_millis(limits.upstream_timeout_ms);
        let reading = read(body, limits.replicated_answer_max_bytes);
        // It has executed, whatever becomes of the rest of the answer.
        let body = tokio::time::timeout(patience, reading).await.unwrap_or_default();
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), Bytes::copy_from_slice(value.as_bytes())))
            .collect();
        Ok(AppAnswer {
            status: head.status.as_u16(),
            headers,
            body,
        })
    }

    fn request(&self, order: Order) -> Result<Request<Body>, Failed> {
        let not_sent = |reason: &dyn std::fmt::Display| Failed {
            outcome: Outcome::NotExecuted,
            is_broken: false,
            problem: Problem::new(
                Code::BadRequest,
                format!("a recorded request cannot be sent: {reason}"),
            ),
        };
        let body = match order.body {
            Content::Inline(bytes) => Body::full(bytes),
            Content::Spooled(payload) => {
                let reader = self.core.spool.reader(&payload, 0);
                spooled::body(reader.map_err(|error| not_sent(&error))?)
            }
        };
        let mut request = Request::builder()
            .method(order.method.as_str())
            .uri(order.path)
            .body(body)
            .map_err(|error| not_sent(&error))?;
        let headers = request.headers_mut();
        for (name, value) in order.headers {
            let name = HeaderName::try_from(name).map_err(|error| not_sent(&error))?;
            let value = HeaderValue::from_maybe_shared(value).map_err(|error| not_sent(&error))?;
            headers.append(name, value);
        }
        // The answer is read here.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(request)
    }
}

/// All of a body, or nothing where it is too long or breaks off.
async fn read(mut body: Body, max_bytes: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Bytes::new();
        };
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > max_bytes {
                Limit::ReplicatedAnswer.hit();
                return Bytes::new();
            }
            bytes.extend_from_slice(&data);
        }
    }
    bytes.freeze()
}

pub(super) fn header<'a>(answer: &'a AppAnswer, name: &str) -> Option<&'a str> {
    let (_, value) = answer.headers.iter().find(|(found, _)| found == name)?;
    std::str::from_utf8(value).ok()
}
