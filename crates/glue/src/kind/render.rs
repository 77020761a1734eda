//! Requests that the agent makes by itself.

use super::Kind;
use crate::key;

const JSON: &str = "application/json";

/// A request to the application of this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Kind {
    pub fn item_path(&self, key: &str) -> String {
        self.item.fill(&self.ids(key))
    }

    /// The path of the collection that the resource is in; its own id is not looked at.
    pub fn collection_path(&self, key: &str) -> String {
        self.collection.fill(&self.ids(key))
    }

    fn ids<'k>(&self, key: &'k str) -> Vec<std::borrow::Cow<'k, str>> {
        key::split(key, self.item.placeholders().count())
    }

    /// The create that makes a replica like another one. `state` is [`Kind::portable`].
    pub fn create_from(&self, key: &str, state: &[u8]) -> Rendered {
        Rendered {
            method: "POST",
            path: self.collection_path(key),
            content_type: JSON,
            body: state.to_vec(),
        }
    }

    /// The update that makes this site's replica like another one. `state` is [`Kind::portable`]; what only
    /// one replica has keeps its value in `current`, this site's replica as it is now.
    pub fn overwrite_from(&self, key: &str, state: &[u8], current: &[u8]) -> Rendered {
        Rendered {
            method: "PUT",
            path: self.item_path(key),
            content_type: JSON,
            // What is not JSON has nothing of its own.
            body: self.joined(state, current).unwrap_or_else(|_| state.to_vec()),
        }
    }
}
