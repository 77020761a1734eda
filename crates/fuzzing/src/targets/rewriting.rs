//! Ids exchanged in bodies, lists and paths.

use bytes::Bytes;
use cheops_glue::{Ids, Own};

use super::{parts, service};

/// Knows no id.
struct Nothing;

impl Ids for Nothing {
    fn map(&self, _: &str, _: &str, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Knows every id that is not long, and gives it another length.
struct Something;

impl Ids for Something {
    fn map(&self, _: &str, _: &str, id: &str, _: &str) -> Option<String> {
        (id.len() < 40).then(|| format!("{id}7"))
    }
}

/// A byte for the service, a path, and a body.
pub(super) fn run(input: &[u8]) -> bool {
    let Some((number, rest)) = input.split_first() else {
        return false;
    };
    let (profile, service) = service(*number);
    let mut parts = parts(rest);
    let (path, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    assert_eq!(profile.map_path(service, path, Own::Map, &Nothing), path);
    for own in [Own::Map, Own::Keep, Own::Hole, Own::Put("x/y")] {
        profile.map_path(service, path, own, &Something);
    }
    assert_eq!(profile.map_url(service, body, &Nothing), None);
    profile.map_url(service, body, &Something);
    let without_query = path.split(['?', '#']).next().unwrap_or_default();
    let Some(address) = profile.address(service, without_query) else {
        return false;
    };
    let text = body.as_bytes();
    let unchanged = address.map_body(text, Own::Map, &Nothing);
    assert!(unchanged.as_deref().is_ok_and(|same| same == text) || unchanged.is_err());
    let mut is_read = unchanged.is_ok() && !text.is_empty();
    for own in [Own::Map, Own::Keep, Own::Hole, Own::Put("x\"y")] {
        if let Ok(changed) = address.map_body(text, own, &Something)
            && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
        {
            check_json(&changed);
        }
    }
    if let Some(shape) = profile.identify(service, "GET", without_query).list {
        let whole = Bytes::copy_from_slice(text);
        if let Ok(same) = address.map_list(shape, whole.clone(), 1 << 24, &Nothing) {
            assert_eq!((same.body, same.replicas.len()), (whole.clone(), 0));
            is_read = true;
        }
        if let Ok(changed) = address.map_list(shape, whole, 1 << 24, &Something) {
            check_json(&changed.body);
        }
    }
    bodies(&address.rules(), text);
    is_read
}

/// What else is done with a body of the kind.
fn bodies(kind: &cheops_glue::Kind, body: &[u8]) {
    let made = [
        kind.comparable(body),
        kind.portable(body),
        kind.with_id(body, "a\"b"),
        kind.with_marker(body, "t"),
        kind.without_counts(body),
        kind.without_preconditions(body).map(std::borrow::Cow::into_owned),
    ];
    // A body that is no JSON passes some of them as it is.
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    for made in made.into_iter().flatten().filter(|_| is_json) {
        check_json(&made);
    }
    kind.id_in_answer(Some("/x/7"), body);
    kind.name_in_request(body);
    kind.name_to_complete(body);
    kind.references(body);
    kind.stage(body);
    kind.is_leaving(body);
    kind.is_effect_free_body(body);
    kind.merge_needs_current(None, body);
    kind.create_from("k/1", body);
    let current = br#"{"id":1,"name":"n","spec":{"a":[1,2]},"metadata":{"name":"n"}}"#;
    if let Ok(difference) = kind.difference(current, body) {
        drop(difference);
    }
    drop((
        kind.merge_into("k", body, current),
        kind.overwrite_from("k", body, current),
    ));
    drop((
        kind.merge_into("k", current, body),
        kind.overwrite_from("k", current, body),
    ));
}

fn check_json(body: &[u8]) {
    let read = serde_json::from_slice::<serde::de::IgnoredAny>(body);
    assert!(read.is_ok(), "{read:?}: {}", String::from_utf8_lossy(body));
}
