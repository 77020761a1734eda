//! Reads whose answer does not end by itself.

use crate::{pattern::Pattern, percent, tree::Tree};

/// What tells that the answer to a read does not end by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Streams {
    parameters: Vec<String>,
    paths: Tree<()>,
}

impl Streams {
    pub(crate) fn add_parameter(&mut self, name: &str) {
        self.parameters.push(name.to_owned());
    }

    pub(crate) fn add_path(&mut self, path: &Pattern) {
        *self.paths.entry(path) = Some(());
    }

    /// A parameter counts unless its value is `0` or `false`.
    pub(crate) fn has(&self, path: &str, query: Option<&str>) -> bool {
        let query = query.filter(|_| !self.parameters.is_empty());
        let asked = query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .any(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                let (name, value) = (percent::decode_text(name), percent::decode_text(value));
                self.parameters.iter().any(|known| **known == *name)
                    && !matches!(&*value.to_ascii_lowercase(), "0" | "false")
            });
        asked
            || self
                .paths
                .find(path, &mut |()| Some(()), &mut |(), _| {})
                .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_or_a_path_tells() {
        let mut streams = Streams::default();
        streams.add_parameter("watch");
        streams.add_path(&Pattern::parse_open("/api/{version}/watch/*").unwrap());
        for (path, query, expect) in [
            ("/api/v1/pods", None, false),
            ("/api/v1/pods", Some("limit=5"), false),
            ("/api/v1/pods", Some("limit=5&watch=true"), true),
            ("/api/v1/pods", Some("watch"), true),
            ("/api/v1/pods", Some("w%61tch=1"), true),
            ("/api/v1/pods", Some("watch=0"), false),
            ("/api/v1/pods", Some("watch=False"), false),
            ("/api/v1/pods", Some("watcher=1&x=watch"), false),
            ("/api/v1/watch/pods", None, true),
            ("/api/v1/watch", None, false),
        ] {
            assert_eq!(streams.has(path, query), expect, "{path} {query:?}");
        }
    }
}
