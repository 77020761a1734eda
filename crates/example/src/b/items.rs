//! Items: B chooses their ids, and knows a request that comes again by the key it brings.

use std::{io, path::Path, sync::Arc};

use axum::{Router, extract::State, routing::get};
use http::{HeaderMap, StatusCode};

use super::{Answer, named};
use crate::{
    collection::{Collection, Page, merge},
    failure::Failure,
    if_match::IfMatch,
    request::{Id, Object, Parameters},
};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

struct Items {
    rows: Collection<u64>,
    id_base: u64,
}

pub(super) fn router(data_dir: &Path, id_base: u64) -> io::Result<Router> {
    let items = Items {
        rows: Collection::open("items", "id", data_dir)?,
        id_base,
    };
    let item = get(read).put(replace).patch(patch).delete(delete);
    let router = Router::new()
        .route("/items", get(list).post(create))
        .route("/items/{id}", item)
        .with_state(Arc::new(items));
    Ok(router)
}

async fn list(State(items): State<Arc<Items>>, Parameters(page): Parameters<Page>) -> Answer {
    items.rows.list(&page, |_| true)
}

async fn create(State(items): State<Arc<Items>>, headers: HeaderMap, Object(item): Object) -> Answer {
    let key = match headers.get(IDEMPOTENCY_KEY).map(|key| key.to_str()) {
        None => None,
        Some(Ok(key)) if !key.is_empty() => Some(key),
        Some(_) => {
            return Err(Failure::new(
                StatusCode::BAD_REQUEST,
                "the Idempotency-Key is no text",
            ));
        }
    };
    items.rows.create_next(items.id_base, named(item)?, key)
}

async fn read(State(items): State<Arc<Items>>, Id(id): Id) -> Answer {
    items.rows.get(&id)
}

async fn replace(
    State(items): State<Arc<Items>>,
    Id(id): Id,
    if_match: IfMatch,
    Object(item): Object,
) -> Answer {
    items.rows.change(&id, &if_match, |_| named(item))
}

async fn patch(
    State(items): State<Arc<Items>>,
    Id(id): Id,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    items.rows.change(&id, &if_match, |item| {
        let mut item = item.clone();
        merge(&mut item, patch);
        named(item)
    })
}

async fn delete(State(items): State<Arc<Items>>, Id(id): Id, if_match: IfMatch) -> Answer {
    items.rows.delete(&id, &if_match)
}
