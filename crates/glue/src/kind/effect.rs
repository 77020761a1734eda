//! What a request does to a resource, and what an answer to it means.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::{Action, Kind, Patch, Upsert, VerbWord, difference::DIFFERENCE};
use crate::{
    Pointer, edit,
    json::{self, Found},
    percent,
};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Read,
    Create,
    /// Sets the whole state.
    Replace,
    /// Sets a part of the state; once more does no harm.
    Merge,
    Action {
        commutes: bool,
        idempotent: bool,
    },
    /// A patch, or what changes the document from below: recorded as the difference that it made. `idempotent`:
    /// once more does no harm.
    Difference {
        idempotent: bool,
    },
    Delete,
    /// Runs once, at one site, and is not recorded.
    Free,
}

/// What a site's answer to a replay means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Done,
    Refused,
    NeedsCredentials,
    Blocked,
    Retry,
    Unknown,
}

/// What of a resource an operation reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touches {
    Whole,
    /// Pointers into the resource's document, of which the empty one is all of it. What stands below the
    /// item and is no part of the document begins with `@`.
    Parts(BTreeSet<String>),
}

/// A patch of more parts counts as one of everything.
const PARTS_MAX: usize = 256;

const UNKNOWN_ACTION: Effect = Effect::Action {
    commutes: false,
    idempotent: false,
};
const REPEATABLE_ACTION: Effect = Effect::Action {
    commutes: false,
    idempotent: true,
};

impl Kind {
    /// What a request does. `below` is the path behind the item, empty for the item itself; none is the
    /// collection.
    pub fn effect(&self, method: &str, below: Option<&str>, content_type: Option<&str>) -> Effect {
        if matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE") {
            return Effect::Read;
        }
        let Some(below) = below else {
            return match method {
                "POST" => Effect::Create,
                "PUT" | "DELETE" => REPEATABLE_ACTION,
                _ => UNKNOWN_ACTION,
            };
        };
        let is_described = |action: &&Action| action.method == method && action.path.matches(below);
        if let Some(action) = self.rules.actions.iter().find(is_described) {
            return action.effect;
        }
        let is_item = below.is_empty();
        match method {
            "PUT" if is_item => match self.rules.put {
                Patch::Replace => Effect::Replace,
                Patch::Merge => Effect::Merge,
                Patch::Difference => Effect::Difference { idempotent: true },
                Patch::Action => REPEATABLE_ACTION,
            },
            "PUT" if self.is_part(below) => Effect::Replace,
            "DELETE" if is_item => Effect::Delete,
            "PUT" | "DELETE" => REPEATABLE_ACTION,
            "PATCH" => match self.patch(content_type) {
                Patch::Merge if is_item => Effect::Merge,
                Patch::Replace if is_item => Effect::Replace,
                Patch::Merge | Patch::Replace => REPEATABLE_ACTION,
                Patch::Difference if is_item => Effect::Difference {
                    idempotent: !content_type.is_some_and(is_json_patch),
                },
                Patch::Difference | Patch::Action => UNKNOWN_ACTION,
            },
            _ => UNKNOWN_ACTION,
        }
    }

    /// Whether the glue says that what stands there has contents of its own.
    pub(crate) fn is_part(&self, below: &str) -> bool {
        self.rules.parts.iter().any(|part| part.matches(below))
    }

    fn patch(&self, content_type: Option<&str>) -> Patch {
        let Some(content_type) = content_type else {
            return Patch::Merge;
        };
        let essence = essence(content_type);
        if essence.eq_ignore_ascii_case(DIFFERENCE) {
            return Patch::Merge;
        }
        let known = self.rules.patch.iter();
        let known = known
            .rev()
            .find(|known| known.content_type.eq_ignore_ascii_case(essence));
        known.map_or(Patch::Action, |known| known.patch)
    }

    /// Whether a request to an item makes it where there is none.
    pub fn is_upsert(&self, method: &str, content_type: Option<&str>) -> bool {
        let sent = content_type.map(essence);
        let is_this = |upsert: &Upsert| {
            let wanted = upsert.content_type.as_deref();
            upsert.method == method
                && wanted.is_none_or(|it| sent.is_some_and(|sent| sent.eq_ignore_ascii_case(it)))
        };
        self.rules.upsert.iter().any(is_this)
    }

    /// Whether a request with this query changes nothing, whatever its method.
    pub fn is_effect_free(&self, query: Option<&str>) -> bool {
        let rules = &self.rules.effect_free;
        let Some(query) = query.filter(|_| !rules.is_empty()) else {
            return false;
        };
        query.split('&').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (name, value) = (percent::decode_text(name), percent::decode_text(value));
            rules
                .iter()
                .any(|(free, only)| *free == *name && only.as_ref().is_none_or(|only| *only == *value))
        })
    }

    /// What the glue says that an answer means; none leaves it to the contract.
    pub fn meaning(&self, effect: &Effect, status: u16) -> Option<Meaning> {
        let verb = match effect {
            Effect::Create => VerbWord::Create,
            Effect::Replace => VerbWord::Replace,
            Effect::Merge => VerbWord::Merge,
            Effect::Action { .. } | Effect::Difference { .. } => VerbWord::Action,
            Effect::Delete => VerbWord::Delete,
            Effect::Read | Effect::Free => return None,
        };
        let answers = self.rules.answers.iter();
        let applies = answers.filter(|answer| {
            (answer.first..=answer.last).contains(&status) && answer.verb.is_none_or(|word| word == verb)
        });
        // The one for this verb alone, then the one for this status alone.
        let best = applies.min_by_key(|answer| (answer.verb.is_none(), answer.last - answer.first));
        best.map(|answer| answer.meaning)
    }

    /// What a request with this effect touches.
    pub fn touches(&self, effect: &Effect, below: &str, body: &[u8]) -> Touches {
        let one = |part: String| Touches::Parts(BTreeSet::from([part]));
        match effect {
            Effect::Replace if below.is_empty() => one(String::new()),
            Effect::Merge => self.patched_members(body).map_or(Touches::Whole, Touches::Parts),
            _ if self.is_part(below) => one(format!("@{below}")),
            Effect::Action { .. } => {
                let is_this = |action: &&Action| action.effect == *effect && action.path.matches(below);
                match self.rules.actions.iter().find(is_this) {
                    Some(action) if !action.touches.is_empty() => {
                        Touches::Parts(action.touches.iter().map(Pointer::to_string).collect())
                    }
                    _ => Touches::Whole,
                }
            }
            _ => Touches::Whole,
        }
    }

    fn patched_members(&self, body: &[u8]) -> Option<BTreeSet<String>> {
        let (_, root) = edit::parse(body).ok()?;
        match json::find(root, &self.rules.document).ok()? {
            Found::Value(patch) => patched(patch),
            Found::Missing { .. } | Found::Blocked => None,
        }
    }
}

/// A content type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// Whether a patch is a list of changes (RFC 6902): what it adds to a list it adds each time.
fn is_json_patch(content_type: &str) -> bool {
    let name = essence(content_type).to_ascii_lowercase();
    name.trim_end_matches("+json").ends_with("json-patch")
}

/// The members that a merge patch sets, as pointers; none where it is no object or has too many.
fn patched(patch: &RawValue) -> Option<BTreeSet<String>> {
    if !json::is_object(patch) {
        return None;
    }
    let mut parts = BTreeSet::new();
    let mut objects = vec![(String::new(), patch)];
    while let Some((at, object)) = objects.pop() {
        let read = json::visit_members(object, |name, value| {
            let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            if json::is_object(value) && !json::is_empty(value) {
                objects.push((pointer, value));
            } else {
                parts.insert(pointer);
            }
        });
        if read.is_err() || parts.len() + objects.len() > PARTS_MAX {
            return None;
        }
    }
    Some(parts)
}
