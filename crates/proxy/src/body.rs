//! The body of a write: inside its operation, or on the disk where it is too long for that.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use cheops_glue::Effect;
use cheops_net::Body;
use cheops_ports::Spooling;
use cheops_types::{Code, KeptBody, Limit, Problem};
use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use http_body_util::BodyExt as _;

use crate::job::Job;

/// What goes to the disk at once.
const PIECE_BYTES: usize = 256 * 1024;

/// What a body must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Anything.
    Bytes,
    /// Text in which ids or a name stand, which is kept in memory as far as possible.
    Json,
}

/// Whether the request's body must be read to make it an operation.
pub(crate) fn need(job: &Job) -> Need {
    let reads = job.concern.as_ref().is_some_and(|concern| {
        let kind = concern.kind.as_deref().unwrap_or_default();
        let rules = job.core.world.profile.kind(&job.service.name, kind);
        let is_new = concern.is_upsert && concern.known.is_none();
        let effect = if is_new { Effect::Create } else { concern.effect };
        concern.is_document && rules.reads_request_body(&effect)
    });
    if reads { Need::Json } else { Need::Bytes }
}

/// Reads the body of a write.
pub(crate) async fn take(job: &Job, body: Body, need: Need) -> Result<KeptBody, Problem> {
    let limits = job.core.limits();
    let max = match need {
        Need::Bytes => limits.inline_body_max_bytes,
        Need::Json => {
            check_json(&job.head.headers, &body)?;
            limits.replay_body_max_bytes
        }
    };
    let spooling = match within(job, body, |body| inline_or_spool(job, body, max)).await? {
        Taken::Inline(bytes) if need == Need::Json => {
            let bytes = readable(job, bytes).await?;
            return Ok(KeptBody::Inline(bytes));
        }
        Taken::Inline(bytes) => return Ok(KeptBody::Inline(bytes)),
        Taken::Spooling(spooling) => spooling,
    };
    Limit::InlineBody.hit();
    spooling.finish().await
}

enum Taken {
    Inline(Bytes),
    Spooling(Box<dyn Spooling>),
}

/// A body as JSON, whatever it is said to be.
async fn readable(job: &Job, bytes: Bytes) -> Result<Bytes, Problem> {
    let headers = &job.head.headers;
    let (is_yaml, is_form) = (is_yaml(headers), is_form(headers));
    if !is_yaml && !is_form {
        return Ok(bytes);
    }
    let body_bytes = if is_yaml { yaml_bytes(&bytes) } else { bytes.len() };
    let read = move || {
        if is_form {
            check_form(&bytes)?;
        }
        if is_yaml { as_json(bytes) } else { Ok(bytes) }
    };
    work(job, body_bytes, read).await
}

/// As how long a body in YAML counts. An alias can stand for much more than its own text: 2 KiB of them take as long as
/// megabytes without.
fn yaml_bytes(body: &[u8]) -> usize {
    if body.contains(&b'*') {
        usize::MAX
    } else {
        body.len()
    }
}

/// Has a body worked on, here if it is short.
pub(crate) async fn work<T: Send + 'static>(
    job: &Job,
    body_bytes: usize,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = job.core.work(body_bytes, work).await;
    done.map_err(|code| {
        let detail = "too many long bodies are being read: send it again; nothing executed";
        Problem::new(code, detail)
    })?
}

/// A document in YAML as one in JSON, in which names and ids are found.
fn as_json(body: Bytes) -> Result<Bytes, Problem> {
    match cheops_glue::json_of_yaml(&body) {
        Ok(Cow::Borrowed(_)) => Ok(body),
        Ok(Cow::Owned(json)) => Ok(json.into()),
        Err(error) => {
            let detail = format!("{error}; nothing executed");
            Err(Problem::new(Code::BodyUnsupported, detail))
        }
    }
}

/// Whether a body is said to be text in which ids and names can be found.
pub(crate) fn is_readable(headers: &HeaderMap) -> bool {
    is_identity(headers) && (!headers.contains_key(CONTENT_TYPE) || is_text(headers))
}

/// Reads a body that ids are to be rewritten in.
pub(crate) async fn json(job: &Job, body: Body) -> Result<Bytes, Problem> {
    check_json(&job.head.headers, &body)?;
    let bytes = whole(job, body).await?;
    readable(job, bytes).await
}

/// The same only where a name or ids stand in it.
pub(crate) async fn json_if_needed(job: &Job, body: Body) -> Result<Bytes, Problem> {
    match need(job) {
        Need::Json => json(job, body).await,
        Need::Bytes => whole(job, body).await,
    }
}

/// Reads a body that is kept in memory.
pub(crate) async fn whole(job: &Job, body: Body) -> Result<Bytes, Problem> {
    let max = job.core.limits().replay_body_max_bytes;
    within(job, body, |mut body| async move {
        let mut whole = BytesMut::new();
        while let Some(data) = next(&mut body).await? {
            if whole.len() + data.len() > max {
                Limit::ReplayBody.hit();
                let detail = format!(
                    "a body in which ids are rewritten may have {max} bytes at most; nothing executed"
                );
                return Err(Problem::new(Code::BodyTooLarge, detail));
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    })
    .await
}

async fn inline_or_spool(job: &Job, mut body: Body, max: usize) -> Result<Taken, Problem> {
    let mut piece = BytesMut::new();
    while piece.len() <= max {
        match next(&mut body).await? {
            Some(data) => piece.extend_from_slice(&data),
            None => return Ok(Taken::Inline(piece.freeze())),
        }
    }
    let coordinator = job.core.replication()?;
    let mut spooling = coordinator.spool()?;
    while let Some(data) = next(&mut body).await? {
        piece.extend_from_slice(&data);
        if piece.len() >= PIECE_BYTES {
            spooling = write(spooling, piece.split().freeze()).await?;
        }
    }
    spooling = write(spooling, piece.freeze()).await?;
    Ok(Taken::Spooling(spooling))
}

/// Writes on a thread that may wait for the disk.
async fn write(mut spooling: Box<dyn Spooling>, piece: Bytes) -> Result<Box<dyn Spooling>, Problem> {
    let written = tokio::task::spawn_blocking(move || {
        spooling.write(&piece)?;
        Ok(spooling)
    });
    written
        .await
        .unwrap_or_else(|error| Err(Problem::new(Code::Internal, format!("the spool failed: {error}"))))
}

/// Reads until the body ends, fails or stands still for too long.
async fn within<T, F>(job: &Job, body: Body, read: impl FnOnce(Body) -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    let (body, progress) = body.watch();
    let timeout_ms = job.core.limits().upstream_timeout_ms;
    let reading = Box::pin(read(body));
    let taken = job.core.clock.timeout_idle(timeout_ms, progress, reading).await;
    taken.unwrap_or_else(|_| {
        Limit::UpstreamTimeout.hit();
        let detail = format!("the request's body stood still for {timeout_ms} ms; nothing executed");
        Err(Problem::new(Code::BadRequest, detail))
    })
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let detail = format!("the request's body broke off: {error}; nothing executed");
            Problem::new(Code::BadRequest, detail)
        })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn check_json(headers: &HeaderMap, body: &Body) -> Result<(), Problem> {
    use http_body::Body as _;

    if body.is_end_stream() {
        return Ok(());
    }
    let refuse = |what: &str| {
        let detail = format!(
            "{what}, and the glue says that ids or a name stand in it: send uncompressed JSON or YAML; nothing executed"
        );
        Err(Problem::new(Code::BodyUnsupported, detail))
    };
    if !is_identity(headers) {
        return refuse("the request's body is compressed");
    }
    if headers.contains_key(CONTENT_TYPE) && !is_text(headers) {
        return refuse("the request's body is neither JSON nor YAML");
    }
    Ok(())
}

/// Whether a body is said to be something that JSON can be.
fn is_text(headers: &HeaderMap) -> bool {
    is_json(headers) || is_yaml(headers) || is_form(headers)
}

/// Whether a body is said to be a form, as `curl -d` says of everything.
fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| value.starts_with("application/x-www-form-urlencoded"))
}

/// What is said to be a form and is JSON is taken for that.
fn check_form(body: &[u8]) -> Result<(), Problem> {
    if body.is_empty() || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() {
        return Ok(());
    }
    let detail = "the request's body is a form, and the glue says that ids or a name stand in it: send JSON or YAML; nothing executed";
    Err(Problem::new(Code::BodyUnsupported, detail))
}

/// Whether a body is as it was written, not compressed.
pub(crate) fn is_identity(headers: &HeaderMap) -> bool {
    let identity = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    headers.get_all(CONTENT_ENCODING).iter().all(identity)
}

fn is_yaml(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(cheops_glue::is_yaml)
}

/// Whether a body is said to be JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json") || kind.to_ascii_lowercase().ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_with_aliases_is_work_for_elsewhere() {
        assert_eq!(yaml_bytes(b"a: [x]"), 6);
        assert_eq!(yaml_bytes(b"a: &a [x]\nb: [*a, *a]"), usize::MAX);
    }
}
