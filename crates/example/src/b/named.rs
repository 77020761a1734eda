//! Labels, crews, rooms and what is in them: whoever makes one chooses its name, for good.

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

/// Longest name.
const NAME_MAX_BYTES: usize = 63;

pub(super) type Named = Collection<String>;

/// A collection of things that have names.
pub(super) fn router(name: &str, data_dir: &Path) -> io::Result<Router> {
    let collection: Named = Collection::open(name, "name", data_dir)?;
    let one = get(read).put(replace).patch(patch).delete(delete);
    let router = Router::new()
        .route(&format!("/{name}"), get(list).post(create))
        .route(&format!("/{name}/{{name}}"), one)
        .with_state(Arc::new(collection));
    Ok(router)
}

async fn list(State(named): State<Arc<Named>>, Parameters(page): Parameters<Page>) -> Answer {
    named.list(&page, |_| true)
}

async fn create(State(named): State<Arc<Named>>, Object(object): Object) -> Answer {
    named.create(&name_of(&object)?, object)
}

async fn read(State(named): State<Arc<Named>>, Name(name): Name) -> Answer {
    named.get(&name)
}

async fn replace(
    State(named): State<Arc<Named>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(object): Object,
) -> Answer {
    named.change(&name, &if_match, |_| Ok(object))
}

async fn patch(
    State(named): State<Arc<Named>>,
    Name(name): Name,
    if_match: IfMatch,
    Object(patch): Object,
) -> Answer {
    merge_into(&named, &name, &if_match, patch)
}

/// Changes some members of what has a name.
pub(super) fn merge_into(named: &Named, name: &String, if_match: &IfMatch, patch: storage::Object) -> Answer {
    named.change(name, if_match, |object| {
        let mut object = object.clone();
        merge(&mut object, patch);
        Ok(object)
    })
}

async fn delete(State(named): State<Arc<Named>>, Name(name): Name, if_match: IfMatch) -> Answer {
    named.delete(&name, &if_match)
}

pub(super) fn name_of(object: &storage::Object) -> Result<String, Failure> {
    let is_good = |name: &&str| {
        (1..=NAME_MAX_BYTES).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let name = object.get("name").and_then(Value::as_str).filter(is_good);
    name.map(str::to_owned).ok_or_else(|| {
        Failure::invalid(format!(
            "a name is needed, of at most {NAME_MAX_BYTES} letters, digits, `.`, `_` and `-`"
        ))
    })
}
