//! Files: a description each, and data of any length beside it. Who makes one may choose its id.

use std::{io, path::Path, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use serde_json::{Value, json};

use self::data::Data;
use super::{Answer, named};
use crate::{
    collection::{Collection, Page, merge},
    failure::Failure,
    if_match::IfMatch,
    request::{Name, Object, Parameters},
    storage, uuid,
};

mod data;

/// What B itself says of a file.
const OWN_MEMBERS: [&str; 2] = ["bytes", "sha256"];

struct Files {
    rows: Collection<String>,
    data: Data,
}

pub(super) fn router(data_dir: &Path) -> io::Result<Router> {
    let files = Files {
        rows: Collection::open("files", "id", data_dir)?,
        data: Data::open(&data_dir.join("files"))?,
    };
    let file = get(read).put(replace).patch(patch).delete(delete);
    let router = Router::new()
        .route("/files", get(list).post(create))
        .route("/files/{id}", file)
        .route("/files/{id}/data", get(download).put(upload))
        .with_state(Arc::new(files));
    Ok(router)
}

async fn list(State(files): State<Arc<Files>>, Parameters(page): Parameters<Page>) -> Answer {
    files.rows.list(&page, |_| true)
}

async fn create(State(files): State<Arc<Files>>, Object(file): Object) -> Answer {
    let id = match file.get("id") {
        None | Some(Value::Null) => uuid::new(),
        Some(id) => id
            .as_str()
            .and_then(uuid::parse)
            .ok_or_else(|| Failure::invalid("the id of a file is a uuid"))?,
    };
    let file = with_own_members(named(file)?, &storage::Object::new());
    files.rows.create(&id, file)
}

async fn read(State(files): State<Arc<Files>>, Name(id): Name) -> Answer {
    files.rows.get(&id)
}

async fn replace(
    State(files): State<Arc<Files>>,
    Name(id): Name,
    if_match: IfMatch,
    Object(file): Object,
) -> Answer {
    files.rows.change(&id, &if_match, |old| {
        named(file).map(|file| with_own_members(file, old))
    })
}

async fn patch(
    State(files): State<Arc<Files>>,
    Name(id): Name,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    files.rows.change(&id, &if_match, |old| {
        let mut file = old.clone();
        merge(&mut file, patch);
        named(file).map(|file| with_own_members(file, old))
    })
}

async fn delete(State(files): State<Arc<Files>>, Name(id): Name, if_match: IfMatch) -> Answer {
    let deleted = files.rows.delete(&id, &if_match)?;
    files.data.remove(&id)?;
    Ok(deleted)
}

/// The new data takes the place of the old when it is there as a whole.
async fn upload(
    State(files): State<Arc<Files>>,
    Name(id): Name,
    if_match: IfMatch,
    request: Request,
) -> Answer {
    files.rows.check(&id)?;
    let upload = files.data.receive(request.into_body()).await?;
    files.rows.change(&id, &if_match, |file| {
        let mut file = file.clone();
        file.insert("bytes".to_owned(), json!(upload.bytes));
        file.insert("sha256".to_owned(), json!(upload.sha256));
        upload.keep(&id)?;
        Ok(file)
    })?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn download(State(files): State<Arc<Files>>, Name(id): Name) -> Answer {
    files.rows.check(&id)?;
    let (bytes, data) = files
        .data
        .send(&id)
        .await?
        .ok_or_else(|| Failure::not_found(format!("file {id} has no data")))?;
    let mut response = Response::new(Body::from_stream(data));
    let head = response.headers_mut();
    head.insert(header::CONTENT_LENGTH, bytes.into());
    head.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/octet-stream"),
    );
    Ok(response)
}

/// What B says of a file is not for callers to set.
fn with_own_members(mut file: storage::Object, old: &storage::Object) -> storage::Object {
    for member in OWN_MEMBERS {
        file.shift_remove(member);
        if let Some(value) = old.get(member) {
            file.insert(member.to_owned(), value.clone());
        }
    }
    file
}
