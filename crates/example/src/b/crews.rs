//! Crews: so many workers under one name.

use std::{io, path::Path, sync::Arc};

use axum::{
    Router,
    extract::State,
    routing::{get, post},
};
use serde_json::Value;

use super::{
    Answer,
    named::{Named, merge_into, name_of},
};
use crate::{
    collection::{Collection, Page},
    failure::Failure,
    if_match::IfMatch,
    request::{Name, Object, Parameters},
    storage,
};

pub(super) fn router(data_dir: &Path) -> io::Result<Router> {
    let crews: Named = Collection::open("crews", "name", data_dir)?;
    let crew = get(read).put(replace).patch(patch).delete(delete);
    let router = Router::new()
        .route("/crews", get(list).post(create))
        .route("/crews/{name}", crew)
        .route("/crews/{name}/scale", post(scale))
        .with_state(Arc::new(crews));
    Ok(router)
}

async fn list(State(crews): State<Arc<Named>>, Parameters(page): Parameters<Page>) -> Answer {
    crews.list(&page, |_| true)
}

async fn create(State(crews): State<Arc<Named>>, Object(crew): Object) -> Answer {
    crews.create(&name_of(&crew)?, checked(crew)?)
}

async fn read(State(crews): State<Arc<Named>>, Name(name): Name) -> Answer {
    crews.get(&name)
}

async fn replace(
    State(crews): State<Arc<Named>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(crew): Object,
) -> Answer {
    crews.change(&name, &if_match, |_| checked(crew))
}

async fn patch(
    State(crews): State<Arc<Named>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    let patch = if patch.contains_key("workers") {
        checked(patch)?
    } else {
        patch
    };
    merge_into(&crews, &name, &if_match, patch)
}

/// So many workers from now on: `{"workers": 7}`.
async fn scale(State(crews): State<Arc<Named>>, Name(name): Name, Object(scale): Object) -> Answer {
    let scale = checked(scale)?;
    let workers = scale
        .into_iter()
        .filter(|(member, _)| member == "workers")
        .collect();
    merge_into(&crews, &name, &IfMatch::default(), workers)
}

async fn delete(State(crews): State<Arc<Named>>, Name(name): Name, if_match: IfMatch) -> Answer {
    crews.delete(&name, &if_match)
}

fn checked(crew: storage::Object) -> Result<storage::Object, Failure> {
    match crew.get("workers").map(Value::as_u64) {
        Some(Some(_)) => Ok(crew),
        _ => Err(Failure::invalid("a crew needs a number of workers")),
    }
}
