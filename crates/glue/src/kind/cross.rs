//! Resources that span sites: containers whose names are taken everywhere, counts that are divided.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use super::{Kind, Rules};
use crate::{
    NotJson, Pointer, edit,
    json::{self, Found},
    key,
    pattern::Pattern,
};

/// A count that is divided among sites.
#[derive(Debug, Clone)]
pub(crate) struct Count {
    pub(crate) pointer: Pointer,
    /// What a create means that does not say it.
    pub(crate) default: u64,
    /// Paths behind the resource whose requests have it at the same place.
    pub(crate) below: Vec<Pattern>,
}

/// What the application answers to a create of something that exists.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) status: u16,
    /// JSON; placeholders of the item's path stand in its texts.
    pub(crate) body: String,
}

/// An answer that an application would have given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
}

impl Kind {
    /// Whether a resource of this kind can span sites and contain others.
    pub fn is_container(&self) -> bool {
        self.rules.spans
    }

    /// What is added to the query of a create that is only to be tried: its answer tells the name that a body has which
    /// cannot be read.
    pub fn rehearsal(&self) -> Option<&str> {
        self.rules.rehearsal.as_deref()
    }

    /// Whether lists of this kind can be watched.
    pub fn is_watched(&self) -> bool {
        self.list.watch.is_some()
    }

    /// Whether a resource of this kind can be divided among sites.
    pub fn is_divisible(&self) -> bool {
        !self.rules.counts.is_empty()
    }

    /// The counts that a request sets: pointers into the resource, and each as a whole. `below` is the path behind
    /// the resource; a create also sets what it does not say.
    pub fn counts(
        &self,
        body: &[u8],
        below: &str,
        is_create: bool,
    ) -> Result<Vec<(String, u64)>, NotCounted> {
        let mut counts = Vec::new();
        for count in &self.rules.counts {
            if !below.is_empty() && !count.below.iter().any(|path| path.matches(below)) {
                continue;
            }
            let value = if body.is_empty() {
                Value::Null
            } else {
                read(body).map_err(|error| NotCounted::NotJson(error.0))?
            };
            match said(&self.rules, &value, &count.pointer) {
                Said::Count(total) => counts.push((count.pointer.to_string(), total)),
                // Whoever takes it away gets what a create gets that does not say it.
                Said::Default => counts.push((count.pointer.to_string(), count.default)),
                Said::Nothing if is_create => counts.push((count.pointer.to_string(), count.default)),
                Said::Nothing => {}
                Said::Other(other) => {
                    return Err(NotCounted::NoCount {
                        pointer: count.pointer.to_string(),
                        found: other.to_string(),
                    });
                }
            }
        }
        Ok(counts)
    }

    /// A request's body, a document or a patch, with these counts. `below` is the path behind the resource.
    pub fn with_counts<'c>(
        &self,
        body: &[u8],
        below: &str,
        counts: impl IntoIterator<Item = (&'c str, u64)>,
    ) -> Result<Vec<u8>, NotJson> {
        let mut value: Value = if body.is_empty() {
            Value::Object(serde_json::Map::new())
        } else {
            read(body)?
        };
        for (pointer, count) in counts {
            match &mut value {
                Value::Array(changes) => {
                    for change in changes {
                        let Some(rest) = rest_of(change, pointer) else {
                            continue;
                        };
                        match change.get("op").and_then(Value::as_str) {
                            Some("add" | "replace") => {
                                set(&mut change["value"], rest, count.into());
                            }
                            Some("remove") if rest.is_empty() => {
                                change["op"] = "replace".into();
                                change["value"] = count.into();
                            }
                            _ => {}
                        }
                    }
                }
                document => {
                    let inner = match below {
                        "" => self.inner_mut(document),
                        _ => document,
                    };
                    set(inner, pointer, count.into());
                }
            }
        }
        serde_json::to_vec(&value).map_err(NotJson::from)
    }

    /// The content type of a patch that sets some members; none where the glue knows of none.
    pub fn merge_type(&self) -> Option<&str> {
        let mut types = self.rules.patch.iter();
        let merge = types.find(|known| known.patch == super::Patch::Merge)?;
        Some(&merge.content_type)
    }

    /// A document that says nothing.
    pub fn empty_document(&self) -> Vec<u8> {
        let mut value = Value::Object(serde_json::Map::new());
        let document = self.rules.document.to_string();
        if !document.is_empty() {
            set(&mut value, &document, Value::Object(serde_json::Map::new()));
        }
        value.to_string().into_bytes()
    }

    /// What stands at a count's place in an answer about a resource.
    pub fn count_in(&self, body: &[u8], pointer: &str) -> Option<u64> {
        let value = edit::build(body).ok()?;
        let document = value.pointer(&self.rules.document.to_string())?;
        document.pointer(pointer)?.as_u64()
    }

    /// A merge patch without its counts.
    pub fn without_counts(&self, body: &[u8]) -> Result<Vec<u8>, NotJson> {
        let mut value = edit::build(body)?;
        let document = self.inner_mut(&mut value);
        for count in &self.rules.counts {
            let pointer = count.pointer.to_string();
            let Some((holder, member)) = pointer.rsplit_once('/') else {
                continue;
            };
            if let Some(Value::Object(members)) = document.pointer_mut(holder) {
                members.shift_remove(&member.replace("~1", "/").replace("~0", "~"));
            }
        }
        serde_json::to_vec(&value).map_err(NotJson::from)
    }

    /// One document for several parts of a resource: the first, with `wholes` at their pointers and sums where the glue
    /// says so. Nothing is built of the parts, which other sites have written: built, numbers take thirty times their
    /// text.
    pub fn whole<'c>(
        &self,
        parts: &[&[u8]],
        wholes: impl IntoIterator<Item = (&'c str, u64)>,
    ) -> Result<Vec<u8>, NotJson> {
        let parts: Result<Vec<_>, _> = parts.iter().map(|part| edit::parse(part)).collect();
        let parts = parts?;
        let (first, others) = match parts.split_first() {
            Some(((text, _), others)) => (*text, others),
            None => ("null", &[][..]),
        };
        let mut whole = Cow::Borrowed(first);
        for pointer in &self.rules.sums {
            let pointer = self.in_body(pointer);
            let own = count_at(json::read(&whole)?, &pointer);
            let rest = others.iter().filter_map(|(_, part)| count_at(part, &pointer));
            let sum = rest.fold(own, |sum, count| Some(sum.unwrap_or(0).saturating_add(count)));
            if let Some(sum) = sum {
                put_count(&mut whole, &pointer, sum);
            }
        }
        for (pointer, count) in wholes {
            let Ok(pointer) = Pointer::parse(pointer) else {
                continue;
            };
            let pointer = self.in_body(&pointer);
            // A part of the resource, such as its scale, need not show all of it.
            if count_at(json::read(&whole)?, &pointer).is_some() {
                put_count(&mut whole, &pointer, count);
            }
        }
        Ok(whole.into_owned().into_bytes())
    }

    fn inner_mut<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        let pointer = self.rules.document.to_string();
        if value.pointer(&pointer).is_none() {
            return value;
        }
        value.pointer_mut(&pointer).expect("it was found")
    }

    /// The application's answer to a create of something that exists; none where the glue does not say.
    pub fn refusal_of_taken(&self, key: &str) -> Option<Refusal> {
        let taken = self.rules.taken.as_ref()?;
        let names: Vec<&str> = self.item.named_placeholders().map(|(_, name)| name).collect();
        let mut body = taken.body.clone();
        for (name, id) in names.iter().zip(key::split(key, names.len())) {
            let quoted = Value::String(id.into_owned()).to_string();
            body = body.replace(&format!("{{{name}}}"), &quoted[1..quoted.len() - 1]);
        }
        Some(Refusal {
            status: taken.status,
            body: body.into_bytes(),
        })
    }
}

/// Why a request says nothing that could be divided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCounted {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("`{pointer}` is {found}, and only a whole number can be divided")]
    NoCount { pointer: String, found: String },
}

/// A document or a patch, in JSON or in YAML.
fn read(body: &[u8]) -> Result<Value, NotJson> {
    edit::build(body).or_else(|error| match crate::json_of_yaml(body) {
        Ok(json) => edit::build(&json),
        Err(_) => Err(error),
    })
}

/// What a document or a patch says about a count.
enum Said<'v> {
    Count(u64),
    /// That it goes.
    Default,
    Nothing,
    Other(&'v Value),
}

impl<'v> Said<'v> {
    fn of(value: Option<&'v Value>) -> Self {
        match value {
            None => Self::Nothing,
            Some(Value::Null) => Self::Default,
            Some(value) => value.as_u64().map_or(Self::Other(value), Self::Count),
        }
    }
}

fn said<'v>(rules: &Rules, body: &'v Value, pointer: &Pointer) -> Said<'v> {
    let pointer = pointer.to_string();
    let Value::Array(changes) = body else {
        let document = body.pointer(&rules.document.to_string()).unwrap_or(body);
        return Said::of(document.pointer(&pointer));
    };
    // Of several changes of one member the last counts.
    let said = changes.iter().rev().find_map(|change| {
        let rest = rest_of(change, &pointer)?;
        match change.get("op").and_then(Value::as_str)? {
            "add" | "replace" => {
                let inner = change.get("value").and_then(|value| value.pointer(rest));
                // What is set anew around it, without it, takes it away.
                Some(Said::of(inner.or((!rest.is_empty()).then_some(&Value::Null))))
            }
            "remove" => Some(Said::Default),
            _ => None,
        }
    });
    said.unwrap_or(Said::Nothing)
}

/// The pointer from the member that a change is about to another one; none where that is not in it.
fn rest_of<'p>(change: &Value, pointer: &'p str) -> Option<&'p str> {
    let path = change.get("path").and_then(Value::as_str)?;
    let rest = pointer.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The count that stands at a place.
fn count_at(value: &RawValue, pointer: &Pointer) -> Option<u64> {
    match json::find(value, pointer).ok()? {
        Found::Value(count) => count.get().parse().ok(),
        Found::Missing { .. } | Found::Blocked => None,
    }
}

/// Puts a count in a text, unless something else is in its way.
fn put_count(text: &mut Cow<'_, str>, pointer: &Pointer, count: u64) {
    if let Ok(edit) = edit::put(text, pointer, &count.to_string()) {
        let new = edit::apply(text, vec![edit]).into_owned();
        *text = Cow::Owned(new);
    }
}

/// Sets a member; what is missing on the way is made.
fn set(value: &mut Value, pointer: &str, to: Value) {
    let mut inner = value;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        if !inner.is_object() {
            *inner = Value::Object(serde_json::Map::new());
        }
        let Some(members) = inner.as_object_mut() else {
            return;
        };
        inner = members.entry(step).or_insert(Value::Null);
    }
    *inner = to;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    const GLUE: &str = r#"
application = "farm"

[[services.A.resources]]
kind = "pool"
collection = "/farms/{farm}/pools"
chosen-by = "client"
name = "/meta/name"
divide = [{ pointer = "/spec/workers", default = 1, below = ["/scale"] }]
sum = ["/status/workers"]
taken = { body = '{"error":"pool \"{id}\" exists in {farm}"}' }

[[services.A.resources]]
kind = "crew"
collection = "/crews"
document = "/crew"
divide = ["/size"]
"#;

    fn kind(name: &str) -> Kind {
        let profile = Profile::parse("farm.toml", GLUE).unwrap();
        profile.kind("A", name).into_owned()
    }

    fn check(kind: &Kind, body: &str, below: &str, is_create: bool, expect: &str) {
        let counts = match kind.counts(body.as_bytes(), below, is_create) {
            Ok(counts) => format!("{counts:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(counts, expect, "{body}");
    }

    #[test]
    fn what_a_request_counts() {
        let pool = kind("pool");
        let ten = r#"[("/spec/workers", 10)]"#;
        check(&pool, r#"{"spec":{"workers":10}}"#, "", true, ten);
        check(&pool, r#"{"spec":{"workers":10}}"#, "/scale", false, ten);
        check(&pool, r#"{"spec":{"workers":10}}"#, "/drain", false, "[]");
        check(&pool, r#"{"meta":{}}"#, "", false, "[]");
        check(&pool, r#"{"meta":{}}"#, "", true, r#"[("/spec/workers", 1)]"#);
        let change = r#"[{"op":"replace","path":"/spec/workers","value":10}]"#;
        check(&pool, change, "", false, ten);
        check(
            &pool,
            r#"{"spec":{"workers":null}}"#,
            "",
            false,
            r#"[("/spec/workers", 1)]"#,
        );
        for (change, expect) in [
            (r#"[{"op":"test","path":"/spec/workers","value":3}]"#, "[]"),
            (
                r#"[{"op":"remove","path":"/spec/workers"}]"#,
                r#"[("/spec/workers", 1)]"#,
            ),
            (r#"[{"op":"replace","path":"/spec","value":{"workers":10}}]"#, ten),
            (
                r#"[{"op":"replace","path":"/spec","value":{}}]"#,
                r#"[("/spec/workers", 1)]"#,
            ),
            (r#"[{"op":"replace","path":"/spe","value":{}}]"#, "[]"),
        ] {
            check(&pool, change, "", false, expect);
        }
        let error = "`/spec/workers` is \"all\", and only a whole number can be divided";
        check(&pool, r#"{"spec":{"workers":"all"}}"#, "", false, error);
        check(
            &kind("crew"),
            r#"{"crew":{"size":3}}"#,
            "",
            true,
            r#"[("/size", 3)]"#,
        );
    }

    #[test]
    fn a_body_with_another_count() {
        let with = |kind: &Kind, body: &str, pointer: &str| {
            let body = kind.with_counts(body.as_bytes(), "", [(pointer, 4)]).unwrap();
            String::from_utf8(body).unwrap()
        };
        let pool = kind("pool");
        let whole = r#"{"spec":{"workers":10,"x":1.50}}"#;
        assert_eq!(
            with(&pool, whole, "/spec/workers"),
            r#"{"spec":{"workers":4,"x":1.50}}"#
        );
        assert_eq!(with(&pool, "{}", "/spec/workers"), r#"{"spec":{"workers":4}}"#);
        let change = r#"[{"op":"replace","path":"/spec/workers","value":10},{"op":"remove","path":"/a"}]"#;
        let expect = r#"[{"op":"replace","path":"/spec/workers","value":4},{"op":"remove","path":"/a"}]"#;
        assert_eq!(with(&pool, change, "/spec/workers"), expect);
        for (change, expect) in [
            (
                r#"[{"op":"test","path":"/spec/workers","value":9}]"#,
                r#"[{"op":"test","path":"/spec/workers","value":9}]"#,
            ),
            (
                r#"[{"op":"remove","path":"/spec/workers"}]"#,
                r#"[{"op":"replace","path":"/spec/workers","value":4}]"#,
            ),
            (
                r#"[{"op":"add","path":"/spec","value":{"x":1}}]"#,
                r#"[{"op":"add","path":"/spec","value":{"x":1,"workers":4}}]"#,
            ),
        ] {
            assert_eq!(with(&pool, change, "/spec/workers"), expect);
        }
        let without = pool.without_counts(br#"{"spec":{"workers":1,"x":2}}"#).unwrap();
        assert_eq!(without, br#"{"spec":{"x":2}}"#);
        assert_eq!(
            with(&kind("crew"), r#"{"crew":{}}"#, "/size"),
            r#"{"crew":{"size":4}}"#
        );
    }

    #[test]
    fn parts_make_a_whole() {
        let parts: [&[u8]; 2] = [
            br#"{"spec":{"workers":4},"status":{"workers":3}}"#,
            br#"{"spec":{"workers":3},"status":{"workers":2}}"#,
        ];
        let whole = kind("pool").whole(&parts, [("/spec/workers", 7)]).unwrap();
        assert_eq!(whole, br#"{"spec":{"workers":7},"status":{"workers":5}}"#);
    }

    #[test]
    fn parts_that_claim_too_much_do_no_harm() {
        let much = format!(r#"{{"status":{{"workers":{}}}}}"#, u64::MAX);
        let parts = [br#"{"status":{"n":1.50}}"#, much.as_bytes(), much.as_bytes()];
        let whole = kind("pool").whole(&parts, [("/spec/workers", 7)]).unwrap();
        let expect = format!(r#"{{"status":{{"n":1.50,"workers":{}}}}}"#, u64::MAX);
        assert_eq!(String::from_utf8(whole).unwrap(), expect);
        // What stands in the way stays.
        let parts: [&[u8]; 2] = [br#"{"status":"none"}"#, br#"{"status":{"workers":1}}"#];
        assert_eq!(kind("pool").whole(&parts, []).unwrap(), parts[0]);
        assert!(kind("pool").whole(&[&b"{"[..]], []).is_err());
    }

    #[test]
    fn a_taken_name_is_refused_in_the_applications_words() {
        let refusal = kind("pool")
            .refusal_of_taken(&key::join(&["north"], "a\"b"))
            .unwrap();
        assert_eq!(refusal.status, 409);
        let body: Value = serde_json::from_slice(&refusal.body).unwrap();
        assert_eq!(body["error"], "pool \"a\"b\" exists in north");
        assert_eq!(kind("crew").refusal_of_taken("x"), None);
    }

    #[test]
    fn mistakes() {
        for (wrong, expect) in [
            ("divide = [\"/a/*\"]", "a count is one member"),
            ("divide = [\"a\"]", "pointer"),
            ("sum = [\"/a\"]", "nothing is"),
            ("divide = [{ pointer = \"/a\", default = \"x\" }]", "whole number"),
            ("taken = { body = 'x' }", "must be JSON"),
            ("taken = { status = 200, body = '{}' }", "between 400 and 499"),
            ("spans = 1", "true or false"),
        ] {
            let text = format!(
                "application = \"a\"\n[[services.A.resources]]\nkind = \"k\"\ncollection = \"/k\"\n{wrong}\n"
            );
            let error = Profile::parse("a.toml", &text).unwrap_err();
            assert!(error.to_string().contains(expect), "{wrong}: {error}");
            assert_eq!(error.line, 5);
        }
    }
}
