//! What callers asked for and were told.

use std::collections::BTreeMap;

use cheops_linear::{Action, Operation, Outcome};
use serde_json::{Value, json};

use crate::trouble::{Site, name};

/// How requests say what they want of their sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `strong(...)`, writes and reads.
    Strong,
    /// `&` for writes; reads at the site that was asked. Promises less, so that violations must be found.
    Eventual,
}

impl Form {
    /// The scope of writes.
    pub(super) fn of_writes(self, sites: usize) -> String {
        let names: Vec<_> = (0..sites).map(name).collect();
        let all = names.join(" & ");
        match self {
            Self::Strong => format!("strong({all})"),
            Self::Eventual => all,
        }
    }

    /// The scope of reads, if they have one.
    pub(super) fn of_reads(self, sites: usize) -> Option<String> {
        (self == Self::Strong).then(|| self.of_writes(sites))
    }
}

/// A create or a write by its number, which is the value that it sets.
pub(super) type Number = u64;

/// A resource by the number of the create that was asked for first.
pub(super) type Born = Number;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    /// The whole document.
    Write,
    Delete,
    Read,
}

/// A request and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) number: Number,
    pub(super) born: Born,
    pub(super) kind: Kind,
    pub(super) caller: u32,
    pub(super) through: Site,
    pub(super) sent_us: u64,
    pub(super) over_us: u64,
    pub(super) fate: Fate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Done {
        /// The value of the document that was read, if there was one.
        found: Option<Number>,
        /// The site that decided about it, by the receipt.
        origin: Option<Site>,
    },
    /// The application refused it, because of what there was.
    Unmet(String),
    /// It certainly changed nothing.
    Refused(String),
    /// Nobody said what became of it.
    Unknown(String),
}

/// What was made, or may have been.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) collection: &'static str,
    /// None of one whose id the application chooses and nobody was told.
    pub(super) path: Option<String>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct History {
    pub(super) resources: BTreeMap<Born, Resource>,
    /// In the order of their answers.
    pub(super) calls: Vec<Call>,
    /// Requests that no agent took.
    pub(super) unsent: usize,
}

/// The name by which a resource is known to the checker.
pub(super) fn key(born: Born) -> String {
    format!("n{born}")
}

impl Fate {
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

impl Call {
    /// In the words of the checker.
    pub(super) fn operation(&self) -> Operation {
        let (outcome, found) = match self.fate {
            Fate::Done { found, .. } => (Outcome::Done, found),
            Fate::Unmet(_) => (Outcome::Unmet, None),
            Fate::Refused(_) => (Outcome::Refused, None),
            Fate::Unknown(_) => (Outcome::Unknown, None),
        };
        let action = match self.kind {
            Kind::Create => Action::Create(self.number),
            Kind::Write => Action::Write(self.number),
            Kind::Delete => Action::Delete,
            Kind::Read => Action::Read(found),
        };
        Operation {
            process: self.caller,
            key: key(self.born),
            action,
            outcome,
            invoked: self.sent_us,
            returned: self.over_us,
        }
    }
}

/// The document of a write.
pub(super) fn document(born: Born, number: Number) -> Value {
    json!({ "name": key(born), "born": born.to_string(), "value": number.to_string() })
}

/// The resource and the value of a document; none of one that this suite never wrote.
pub(super) fn read(document: &Value) -> Option<(Born, Number)> {
    let of = |member: &str| document[member].as_str()?.parse().ok();
    Some((of("born")?, of("value")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_tells_its_resource_and_its_write() {
        assert_eq!(read(&document(5, 17)), Some((5, 17)));
        assert_eq!(read(&json!({ "name": "n5" })), None);
    }

    #[test]
    fn scopes_say_how_much_is_promised() {
        assert_eq!(Form::Strong.of_writes(3), "strong(site1 & site2 & site3)");
        assert_eq!(
            Form::Strong.of_reads(3).as_deref(),
            Some("strong(site1 & site2 & site3)")
        );
        assert_eq!(
            (Form::Eventual.of_writes(2), Form::Eventual.of_reads(2)),
            ("site1 & site2".to_owned(), None)
        );
    }
}
