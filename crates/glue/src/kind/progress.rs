//! How far an asynchronous create is.

use serde_json::Value;

use super::{Kind, body::at};

/// What a document tells about the work that its create began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    Done,
    /// In the application's own word.
    UnderWay(String),
    Failed(String),
}

impl Kind {
    /// Whether a create goes on after it was answered, and its document tells how far it is.
    pub fn is_asynchronous(&self) -> bool {
        self.rules.progress.is_some()
    }

    /// How far a resource is, by an answer about it. What cannot be read is under way.
    pub fn stage(&self, body: &[u8]) -> Stage {
        let Some(progress) = &self.rules.progress else {
            return Stage::Done;
        };
        let document = self.document(body).unwrap_or_default();
        let word = match at(&document, &progress.pointer) {
            Some(Value::String(word)) => word.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let is_one_of = |words: &[String]| words.iter().any(|known| known.eq_ignore_ascii_case(&word));
        if is_one_of(&progress.done) {
            Stage::Done
        } else if is_one_of(&progress.failed) {
            Stage::Failed(word)
        } else {
            Stage::UnderWay(word)
        }
    }
}
