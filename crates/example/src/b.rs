//! Service B: items, a string, and some answers that are long, late or telling.

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

use crate::{
    collection::{Collection, Page, merge},
    failure::Failure,
    request::{Id, Object, Parameters},
    storage,
};

/// Longest time that `/slow` takes.
const SLOW_MAX_MS: u64 = 60_000;

struct B {
    string: String,
    items: Collection,
}

type Answer = Result<Response, Failure>;

pub(crate) fn router(string: String, data_dir: &Path, id_base: u64) -> io::Result<Router> {
    let items = Collection::open("items", data_dir, id_base)?;
    let router = Router::new()
        .route("/string", get(say_string))
        .route("/items", get(list_items).post(create_item))
        .route(
            "/items/{id}",
            get(get_item)
                .put(replace_item)
                .patch(patch_item)
                .delete(delete_item),
        )
        .route("/slow", get(answer_late))
        .route("/upload", post(count_bytes))
        .route("/download", get(send_zeros))
        .route("/headers", get(show_headers))
        .with_state(Arc::new(B { string, items }));
    Ok(router)
}

async fn say_string(State(b): State<Arc<B>>) -> String {
    b.string.clone()
}

async fn list_items(State(b): State<Arc<B>>, Parameters(page): Parameters<Page>) -> Answer {
    b.items.list(&page)
}

async fn create_item(State(b): State<Arc<B>>, Object(item): Object) -> Answer {
    b.items.create(checked(item)?)
}

async fn get_item(State(b): State<Arc<B>>, Id(id): Id) -> Answer {
    b.items.get(id)
}

async fn replace_item(State(b): State<Arc<B>>, Id(id): Id, Object(item): Object) -> Answer {
    b.items.change(id, |_| checked(item))
}

async fn patch_item(State(b): State<Arc<B>>, Id(id): Id, Object(patch): Object) -> Answer {
    b.items.change(id, |item| {
        let mut item = item.clone();
        merge(&mut item, patch);
        checked(item)
    })
}

async fn delete_item(State(b): State<Arc<B>>, Id(id): Id) -> Answer {
    b.items.delete(id)
}

/// An item has a name; whatever else it has is its owner's business.
fn checked(item: storage::Object) -> Result<storage::Object, Failure> {
    match item.get("name") {
        Some(Value::String(name)) if !name.is_empty() => Ok(item),
        _ => Err(Failure::invalid("an item needs a name, a text")),
    }
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
