//! Service B: items, labels, files, rooms with boxes, crews, a string, and some answers that are long, late or telling.

mod crews;
mod files;
mod items;
mod named;
mod rooms;

use std::{
    convert::Infallible,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::{get, post},
};
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{failure::Failure, request::Parameters, storage};

/// Longest time that `/slow` takes.
const SLOW_MAX_MS: u64 = 60_000;

type Answer = Result<Response, Failure>;

pub(crate) fn router(string: String, data_dir: &Path, id_base: u64) -> io::Result<Router> {
    let router = Router::new()
        .route("/string", get(say_string))
        .route("/slow", get(answer_late))
        .route("/upload", post(count_bytes))
        .route("/download", get(send_zeros))
        .route("/headers", get(show_headers))
        .with_state(Arc::from(string))
        .merge(items::router(data_dir, id_base)?)
        .merge(named::router("labels", data_dir)?)
        .merge(rooms::router(data_dir)?)
        .merge(crews::router(data_dir)?)
        .merge(files::router(data_dir)?);
    Ok(router)
}

/// Whatever B keeps has a name; what else it has is its owner's business.
fn named(object: storage::Object) -> Result<storage::Object, Failure> {
    match object.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(object),
        _ => Err(Failure::invalid("a name is needed, a text")),
    }
}

async fn say_string(State(string): State<Arc<str>>) -> String {
    string.to_string()
}

#[derive(Deserialize)]
struct Slow {
    ms: u64,
}

async fn answer_late(Parameters(Slow { ms }): Parameters<Slow>) -> Result<String, Failure> {
    if ms > SLOW_MAX_MS {
        return Err(Failure::malformed(format!("ms must be at most {SLOW_MAX_MS}")));
    }
    tokio::time::sleep(Duration::from_millis(ms)).await;
    Ok(format!("after {ms} ms"))
}

async fn count_bytes(request: Request) -> Result<Json<Value>, Failure> {
    let mut body = request.into_body();
    let mut bytes = 0_u64;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::malformed(format!("the body broke off: {error}")))?;
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(Json(json!({ "bytes": bytes })))
}

#[derive(Deserialize)]
struct Download {
    bytes: u64,
}

async fn send_zeros(Parameters(Download { bytes }): Parameters<Download>) -> Response {
    let mut response = Response::new(Body::new(Zeros { left_bytes: bytes }));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/octet-stream"),
    );
    response
}

async fn show_headers(headers: HeaderMap) -> Json<Value> {
    let mut shown = serde_json::Map::new();
    for name in headers.keys() {
        let values = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        shown.insert(name.to_string(), json!(values.collect::<Vec<_>>()));
    }
    Json(Value::Object(shown))
}

/// A body of zeros that is never in memory as a whole.
struct Zeros {
    left_bytes: u64,
}

impl hyper::body::Body for Zeros {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        let length = self.left_bytes.min(ZEROS.len() as u64);
        if length == 0 {
            return Poll::Ready(None);
        }
        self.left_bytes -= length;
        let data = Bytes::from_static(&ZEROS[..length as usize]);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
