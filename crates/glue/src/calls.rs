//! Requests that the glue lists by method and path.

use crate::{pattern::Pattern, tree::Tree};

/// Something for each listed request.
#[derive(Debug, Clone)]
pub(crate) struct Calls<T>(Tree<Vec<(String, T)>>);

impl<T> Default for Calls<T> {
    fn default() -> Self {
        Self(Tree::default())
    }
}

impl<T> Calls<T> {
    /// Adds a request; false if it is there already.
    pub(crate) fn insert(&mut self, method: &str, path: &Pattern, value: T) -> bool {
        let methods = self.0.entry(path).get_or_insert_default();
        let is_new = methods.iter().all(|(known, _)| known != method);
        if is_new {
            methods.push((method.to_owned(), value));
        }
        is_new
    }

    /// What the most specific listed request stands for. `HEAD` is listed with `GET`.
    pub(crate) fn find(&self, method: &str, path: &str) -> Option<&T> {
        let method = if method == "HEAD" { "GET" } else { method };
        self.0.find(
            path,
            &mut |methods| {
                let known = methods.iter().find(|(known, _)| known == method);
                known.map(|(_, value)| value)
            },
            &mut |_, _| {},
        )
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values().into_iter().flatten().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_method_and_path() {
        let mut calls = Calls::default();
        for (method, path) in [
            ("GET", "/"),
            ("POST", "/tokens"),
            ("GET", "/{any}"),
            ("GET", "/open/*"),
        ] {
            assert!(calls.insert(method, &Pattern::parse_open(path).unwrap(), path));
        }
        assert!(!calls.insert("GET", &Pattern::parse("/{other}").unwrap(), "again"));
        for (method, path, expect) in [
            ("GET", "/", Some("/")),
            ("HEAD", "", Some("/")),
            ("POST", "/", None),
            ("POST", "/tokens", Some("/tokens")),
            // The more specific one has another method.
            ("GET", "/tokens", Some("/{any}")),
            ("GET", "/open", Some("/{any}")),
            ("GET", "/open/api/v2", Some("/open/*")),
            ("DELETE", "/tokens", None),
        ] {
            assert_eq!(calls.find(method, path).copied(), expect, "{method} {path}");
        }
    }
}
