//! What agents ask each other for replication's sake: messages, payloads, how an operation stands.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use cheops_net::{Body, Received};
use cheops_ports::Coordinator;
use cheops_types::{Code, Limit, Problem, SiteName, headers};
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use crate::{core::Core, memory::MessageLease, operation, pieces::Pieces};

/// Answers what is meant for replication; none for any other path.
pub(super) async fn handle(
    core: &Core,
    peer: &SiteName,
    request: Request<Received>,
) -> Result<Response<Body>, Request<Received>> {
    let path = request.uri().path();
    let answer = if let Some(what) = path.strip_prefix(headers::PEER_REPLICATION_PATH) {
        let what = what.to_owned();
        match core.replication() {
            Ok(coordinator) => receive(core, coordinator, peer, &what, request).await,
            Err(problem) => Err(problem),
        }
    } else if let Some(hash) = path.strip_prefix(headers::PEER_PAYLOAD_PATH) {
        core.replication()
            .and_then(|coordinator| payload(coordinator, peer, hash, request.uri().query()))
    } else if let Some(id) = path.strip_prefix(headers::OPERATION_PATH) {
        core.replication()
            .and_then(|coordinator| operation::show(core, coordinator, id))
    } else {
        return Err(request);
    };
    Ok(answer.unwrap_or_else(|problem| core.refuse(&problem)))
}

async fn receive(
    core: &Core,
    coordinator: &Arc<dyn Coordinator>,
    peer: &SiteName,
    what: &str,
    request: Request<Received>,
) -> Result<Response<Body>, Problem> {
    if request.method() != Method::POST {
        let detail = format!("site `{peer}` must POST what it sends to replication");
        return Err(Problem::new(Code::BadRequest, detail));
    }
    let (body, progress) = Body::from(request.into_body()).watch();
    let timeout_ms = core.limits().peer_timeout_ms;
    let reading = pin!(read(core, peer, body));
    let Ok(read) = core.clock.timeout_idle(timeout_ms, progress, reading).await else {
        let detail = format!("the message of site `{peer}` stood still for {timeout_ms} ms");
        return Err(Problem::new(Code::BadRequest, detail));
    };
    // It is in memory until the engine has taken it.
    let (pieces, lease) = read?;
    let (message, _lease) = join(core, pieces, lease).await?;
    let answer = coordinator.receive(peer, what, message).await?;
    let mut response = Response::new(Body::full(answer));
    if response.body().is_end_stream() {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response)
}

/// Reads a message within its own bound and that of all messages. Senders stay far below the first: a batch ends at
/// `ship_batch_max_bytes`, but one operation or one resource's state is never cut in two.
async fn read(core: &Core, peer: &SiteName, mut body: Body) -> Result<(Pieces, MessageLease), Problem> {
    let limits = core.limits();
    let mut lease = core.shared.messages.lease(peer, limits);
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("the message of site `{peer}` broke off: {error}");
            Problem::new(Code::BadRequest, detail)
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if pieces.bytes() + data.len() > limits.peer_message_max_bytes {
            Limit::PeerMessage.hit();
            let detail = format!(
                "a message may have {} bytes at most",
                limits.peer_message_max_bytes
            );
            return Err(Problem::new(Code::BodyTooLarge, detail));
        }
        if !lease.grow(data.len(), limits) {
            let detail = format!(
                "site `{}` has too many messages of site `{peer}` and others in memory: send this one again",
                core.world.site
            );
            return Err(Problem::new(Code::StoreBusy, detail).at(&core.world.site));
        }
        pieces.push(&data);
    }
    Ok((pieces, lease))
}

/// A message in one piece. A long one is joined beside the core, on a thread that no client's long lists can keep busy.
async fn join(core: &Core, pieces: Pieces, lease: MessageLease) -> Result<(Bytes, MessageLease), Problem> {
    if pieces.bytes() <= core.limits().work_inline_max_bytes {
        return Ok((pieces.join(), lease));
    }
    let joined = tokio::task::spawn_blocking(move || (pieces.join(), lease)).await;
    joined.map_err(|_| {
        let here = &core.world.site;
        let detail = format!("site `{here}` could not read the message: send it again");
        Problem::new(Code::StoreBusy, detail).at(here)
    })
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
    let body = coordinator.payload(peer, hash, offset)?;
    let length = body.size_hint().exact().map(HeaderValue::from);
    let mut response = Response::new(body);
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, length);
    }
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
