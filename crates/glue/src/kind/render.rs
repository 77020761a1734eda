//! Requests that the agent makes by itself.

use super::Kind;
use crate::key;

const JSON: &str = "application/json";

/// A request to the application of this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub method: String,
    pub path: String,
    pub content_type: String,
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

    /// How many ids tell a resource of this kind.
    pub(crate) fn placeholders(&self) -> usize {
        self.item.placeholders().count()
    }

    fn ids<'k>(&self, key: &'k str) -> Vec<std::borrow::Cow<'k, str>> {
        key::split(key, self.placeholders())
    }

    /// The create that makes a replica like another one. `state` is [`Kind::portable`].
    pub fn create_from(&self, key: &str, state: &[u8]) -> Rendered {
        Rendered {
            method: "POST".to_owned(),
            path: self.collection_path(key),
            content_type: JSON.to_owned(),
            body: state.to_vec(),
        }
    }
}
