//! What agents ask each other for replication's sake: messages, payloads, how an operation stands.

use std::sync::Arc;

use cheops_net::Body;
use cheops_plan::Coordinator;
use cheops_types::{Code, Problem, SiteName, headers};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::Payload;
use crate::{core::Core, operation};

/// The longest message. Senders stay far below it: a batch ends at `ship_batch_max_bytes`, but one
/// operation or one resource's state is never cut in two.
const MESSAGE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Answers what is meant for replication; none for any other path.
pub(super) async fn handle(
    core: &Core,
    peer: &SiteName,
    request: Request<Incoming>,
) -> Result<Response<Body>, Request<Incoming>> {
    let path = request.uri().path();
    let answer = if let Some(what) = path.strip_prefix(headers::PEER_REPLICATION_PATH) {
        let what = what.to_owned();
        match attached(core) {
            Ok(coordinator) => receive(core, coordinator, peer, &what, request).await,
            Err(problem) => Err(problem),
        }
    } else if let Some(hash) = path.strip_prefix(headers::PEER_PAYLOAD_PATH) {
        attached(core).and_then(|coordinator| payload(coordinator, peer, hash, request.uri().query()))
    } else if let Some(id) = path.strip_prefix(headers::OPERATION_PATH) {
        attached(core).and_then(|coordinator| operation::show(core, coordinator, id))
    } else {
        return Err(request);
    };
    Ok(answer.unwrap_or_else(|problem| core.refuse(&problem)))
}

fn attached(core: &Core) -> Result<&Arc<dyn Coordinator>, Problem> {
    core.shared.replication().ok_or_else(|| {
        let here = &core.world.site;
        Problem::new(
            Code::NotAvailable,
            format!("site `{here}` does not replicate: it has no store"),
        )
        .at(here)
    })
}

async fn receive(
    core: &Core,
    coordinator: &Arc<dyn Coordinator>,
    peer: &SiteName,
    what: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Problem> {
    if request.method() != Method::POST {
        let detail = format!("site `{peer}` must POST what it sends to replication");
        return Err(Problem::new(Code::BadRequest, detail));
    }
    let (body, progress) = Body::from(request.into_body()).watch();
    let timeout_ms = core.limits().peer_timeout_ms;
    let reading = Limited::new(body, MESSAGE_MAX_BYTES).collect();
    let message = match core.clock.timeout_idle(timeout_ms, progress, reading).await {
        Ok(Ok(message)) => message.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("a message may have {MESSAGE_MAX_BYTES} bytes at most");
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        Ok(Err(error)) => {
            let detail = format!("the message of site `{peer}` broke off: {error}");
            return Err(Problem::new(Code::BadRequest, detail));
        }
        Err(_) => {
            let detail = format!("the message of site `{peer}` stood still for {timeout_ms} ms");
            return Err(Problem::new(Code::BadRequest, detail));
        }
    };
    let answer = coordinator.receive(peer, what, message).await?;
    let mut response = Response::new(Body::full(answer));
    if response.body().is_end_stream() {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

fn payload(
    coordinator: &Arc<dyn Coordinator>,
    peer: &SiteName,
    hash: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Problem> {
    let offset = match query.and_then(|query| query.strip_prefix("offset=")) {
        None => 0,
        Some(text) => text.parse().map_err(|_| {
            let detail = format!("site `{peer}` asks for a payload from `{text}` on, which is no number");
            Problem::new(Code::BadRequest, detail)
        })?,
    };
    let chunks = coordinator.payload(peer, hash, offset)?;
    let length = HeaderValue::from(chunks.remaining());
    let mut response = Response::new(Body::other(Payload::new(chunks)));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
