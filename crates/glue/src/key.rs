//! What tells a resource among all of its kind at one site: the ids in its path, its own last.
//!
//! Where the path has one placeholder the key is the id itself. Otherwise the ids are joined by `/`, and a
//! `/` or `%` within one is escaped.

use std::{borrow::Cow, fmt::Write as _};

use crate::percent;

/// The key of the resource `id` below `parents`.
pub fn join(parents: &[impl AsRef<str>], id: &str) -> String {
    if parents.is_empty() {
        return id.to_owned();
    }
    let mut key = String::new();
    for parent in parents {
        escape_into(&mut key, parent.as_ref());
        key.push('/');
    }
    escape_into(&mut key, id);
    key
}

/// The ids that a key of `count` ids was made of; missing ones are empty.
pub fn split(key: &str, count: usize) -> Vec<Cow<'_, str>> {
    if count == 1 {
        return vec![Cow::Borrowed(key)];
    }
    let mut ids: Vec<_> = key.split('/').map(percent::decode_text).collect();
    ids.resize(count, Cow::Borrowed(""));
    ids
}

fn escape_into(out: &mut String, id: &str) {
    for c in id.chars() {
        match c {
            '/' | '%' => write!(out, "%{:02X}", u32::from(c)).expect("a text takes everything"),
            _ => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_single_id_is_its_own_key() {
        assert_eq!(join(&[""; 0], "a/b%2F"), "a/b%2F");
        assert_eq!(split("a/b%2F", 1), ["a/b%2F"]);
        assert_eq!(join(&["7"], "3"), "7/3");
        assert_eq!(split("7", 3), ["7", "", ""]);
    }

    proptest! {
        #[test]
        fn keys_survive(ids in proptest::collection::vec(any::<String>(), 1..5)) {
            let (id, parents) = ids.split_last().unwrap();
            let key = join(parents, id);
            prop_assert_eq!(split(&key, ids.len()), ids);
        }
    }
}
