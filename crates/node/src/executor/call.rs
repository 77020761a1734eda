//! One call of this site's application.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cheops_net::Body;
use cheops_ports::NoAnswer;
use cheops_store::PayloadRef;
use cheops_types::{Code, KeptBody, Limit, Outcome, Problem, ServiceName};
use http::{HeaderName, HeaderValue, Request, header::ACCEPT_ENCODING};
use http_body_util::BodyExt as _;

use super::{Executor, render::AppRequest};
use crate::{stream, waiting::AppAnswer};

impl Executor {
    /// Sends a request and reads its answer, as far as it may be kept.
    pub(crate) async fn call(
        &self,
        service: &ServiceName,
        order: AppRequest,
        scope: &str,
    ) -> Result<AppAnswer, NoAnswer> {
        let request = self.request(order)?;
        let limits = self.core.surroundings.limits();
        let answer = self.application.call(service, request, scope).await?;
        let (head, body) = answer.into_parts();
        let patience = Duration::from_millis(limits.upstream_timeout_ms);
        let reading = read(body, limits.replicated_answer_max_bytes);
        // It has executed, whatever becomes of the rest of the answer.
        let body = tokio::time::timeout(patience, reading).await.unwrap_or_default();
        Ok(AppAnswer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    fn request(&self, order: AppRequest) -> Result<Request<Body>, NoAnswer> {
        let not_sent = |reason: &dyn std::fmt::Display| NoAnswer {
            outcome: Outcome::NotExecuted,
            is_broken: false,
            problem: Problem::new(
                Code::BadRequest,
                format!("a recorded request cannot be sent: {reason}"),
            ),
        };
        let body = match order.body {
            KeptBody::Inline(bytes) => Body::full(bytes),
            KeptBody::Spooled { hash, bytes } => {
                let hash = hash.into();
                let reader = self.core.spool.reader(&PayloadRef { hash, bytes }, 0);
                stream::body(reader.map_err(|error| not_sent(&error))?, None)
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
