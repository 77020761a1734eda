//! Labels: whoever makes one chooses its name, for good.

use std::{io, path::Path, sync::Arc};

use axum::{Router, extract::State, routing::get};
use serde_json::Value;

use super::Answer;
use crate::{
    collection::{Collection, Page, merge},
    failure::Failure,
    if_match::IfMatch,
    request::{Name, Object, Parameters},
    storage,
};

/// Longest name of a label.
const NAME_MAX_BYTES: usize = 63;

type Labels = Collection<String>;

pub(super) fn router(data_dir: &Path) -> io::Result<Router> {
    let labels: Labels = Collection::open("labels", "name", data_dir)?;
    let label = get(read).put(replace).patch(patch).delete(delete);
    let router = Router::new()
        .route("/labels", get(list).post(create))
        .route("/labels/{name}", label)
        .with_state(Arc::new(labels));
    Ok(router)
}

async fn list(State(labels): State<Arc<Labels>>, Parameters(page): Parameters<Page>) -> Answer {
    labels.list(&page, |_| true)
}

async fn create(State(labels): State<Arc<Labels>>, Object(label): Object) -> Answer {
    labels.create(&name_of(&label)?, label)
}

async fn read(State(labels): State<Arc<Labels>>, Name(name): Name) -> Answer {
    labels.get(&name)
}

async fn replace(
    State(labels): State<Arc<Labels>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(label): Object,
) -> Answer {
    labels.change(&name, &if_match, |_| Ok(label))
}

async fn patch(
    State(labels): State<Arc<Labels>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    labels.change(&name, &if_match, |label| {
        let mut label = label.clone();
        merge(&mut label, patch);
        Ok(label)
    })
}

async fn delete(State(labels): State<Arc<Labels>>, Name(name): Name, if_match: IfMatch) -> Answer {
    labels.delete(&name, &if_match)
}

fn name_of(label: &storage::Object) -> Result<String, Failure> {
    let is_good = |name: &&str| {
        (1..=NAME_MAX_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let name = label.get("name").and_then(Value::as_str).filter(is_good);
    name.map(str::to_owned).ok_or_else(|| {
        Failure::invalid(format!(
            "a label needs a name of at most {NAME_MAX_BYTES} letters, digits, `.`, `_` and `-`"
        ))
    })
}
