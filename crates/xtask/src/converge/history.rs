//! What callers asked for and were told, and what sites have in the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::trouble::Site;

pub(super) const SITES: usize = 3;
/// Members of a document that writes set; each holds the id of the write that set it.
pub(super) const FIELDS: usize = 4;

/// How ids of files begin that a caller chose; it may also leave that to the agent.
pub(super) const CHOSEN_FILE: &str = "00000000-0000-4000-8000-";

/// A write's own number, which is in every member that it sets.
pub(super) type WriteId = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    /// The whole document.
    Replace,
    /// One field, and a mark of its own that no other patch touches.
    Patch(usize),
    Delete,
}

impl Kind {
    /// Whether it sets, or takes away, a field.
    pub(super) fn touches(self, field: usize) -> bool {
        match self {
            Self::Create | Self::Replace | Self::Delete => true,
            Self::Patch(own) => own == field,
        }
    }

    /// Whether it says all of the document.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Create | Self::Replace)
    }

    /// The fields that it sets.
    pub(super) fn sets(self) -> std::ops::Range<usize> {
        match self {
            Self::Create | Self::Replace => 0..FIELDS,
            Self::Patch(field) => field..field + 1,
            Self::Delete => 0..0,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) id: WriteId,
    /// The create of the resource that it is about.
    pub(super) born: WriteId,
    pub(super) kind: Kind,
    /// The site that was asked.
    pub(super) through: Site,
    pub(super) sent_ms: u64,
    pub(super) fate: Fate,
}

#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// 2xx with a receipt.
    Acknowledged(Acknowledged),
    /// It certainly changed nothing.
    Refused { at_ms: u64, why: String },
    /// Nobody said what became of it.
    Doubt { at_ms: u64, why: String },
}

#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    pub(super) at_ms: u64,
    pub(super) operation: String,
    /// The site that accepted it.
    pub(super) origin: Site,
    /// The document of that site right after the write; none after a delete.
    pub(super) seen: Option<Document>,
}

impl Write {
    pub(super) fn acknowledged(&self) -> Option<&Acknowledged> {
        match &self.fate {
            Fate::Acknowledged(acknowledged) => Some(acknowledged),
            Fate::Refused { .. } | Fate::Doubt { .. } => None,
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.fate, Fate::Refused { .. })
    }

    /// When it had happened at the latest; a write in doubt may happen at any time.
    pub(super) fn over_ms(&self) -> u64 {
        match &self.fate {
            Fate::Acknowledged(Acknowledged { at_ms, .. }) | Fate::Refused { at_ms, .. } => *at_ms,
            Fate::Doubt { .. } => u64::MAX,
        }
    }
}

/// A document of the example application as this suite writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) born: WriteId,
    /// The last write of the whole document.
    pub(super) base: Option<WriteId>,
    pub(super) fields: [Option<WriteId>; FIELDS],
    /// Patches since then.
    pub(super) marks: BTreeSet<WriteId>,
    /// All of it, without the id, which is each site's own.
    pub(super) text: Value,
}

impl Document {
    /// None of a document that this suite never wrote.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let mut text = value.as_object()?.clone();
        text.shift_remove("id");
        let of = |member: &str| text.get(member).and_then(Value::as_str).and_then(write_id);
        let marks = text.keys().filter_map(|key| key.strip_prefix("m-")?.parse().ok());
        Some(Self {
            born: of("born")?,
            base: of("base"),
            fields: std::array::from_fn(|field| of(&format!("f{field}"))),
            marks: marks.collect(),
            text: Value::Object(text.clone()),
        })
    }
}

fn write_id(text: &str) -> Option<WriteId> {
    text.strip_prefix('w')?.parse().ok()
}

/// The body of a write; null of a delete.
pub(super) fn body(id: WriteId, born: WriteId, kind: Kind) -> Value {
    let value = json!(format!("w{id}"));
    match kind {
        Kind::Delete => Value::Null,
        Kind::Patch(field) => json!({ format!("f{field}"): value, format!("m-{id}"): 1 }),
        Kind::Create | Kind::Replace => {
            let mut document = Map::new();
            document.insert("name".to_owned(), json!(format!("n{born}")));
            document.insert("born".to_owned(), json!(format!("w{born}")));
            document.insert("base".to_owned(), value.clone());
            for field in 0..FIELDS {
                document.insert(format!("f{field}"), value.clone());
            }
            Value::Object(document)
        }
    }
}

/// What was made, or may have been.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) born: WriteId,
    /// Its collection in paths.
    pub(super) collection: &'static str,
    /// The id that callers use; none of a create without an answer whose id the application chooses.
    pub(super) id: Option<String>,
    pub(super) set: Option<String>,
    pub(super) sites: Vec<Site>,
}

#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) resources: BTreeMap<WriteId, Resource>,
    /// In the order of their answers.
    pub(super) writes: Vec<Write>,
}

/// What applications have: by the create, then by site; more than one at a site is one too many.
pub(super) type Finals = BTreeMap<WriteId, [Vec<Document>; SITES]>;

/// Whether all sites of a resource have the same, and no other site has it.
pub(super) fn is_same(resource: &Resource, at: &[Vec<Document>; SITES]) -> bool {
    let Some(first) = resource.sites.first() else {
        return false;
    };
    (0..SITES).all(|site| {
        if resource.sites.contains(&site) {
            at[site].len() <= 1 && at[site] == at[*first]
        } else {
            at[site].is_empty()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_tells_which_writes_are_in_it() {
        let mut whole = body(7, 5, Kind::Replace);
        let Value::Object(patch) = body(9, 5, Kind::Patch(2)) else {
            panic!("no object");
        };
        whole["id"] = json!(1001);
        whole.as_object_mut().unwrap().extend(patch);
        let document = Document::read(&whole).unwrap();
        assert_eq!((document.born, document.base), (5, Some(7)));
        assert_eq!(document.fields, [Some(7), Some(7), Some(9), Some(7)]);
        assert_eq!(document.marks, BTreeSet::from([9]));
        assert_eq!(document.text.get("id"), None);
        assert_eq!(Document::read(&json!({ "name": "stranger" })), None);
    }
}
