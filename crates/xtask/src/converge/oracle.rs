//! The judge: given what callers were told and what sites have in the end, what is wrong? Pure.
//!
//! An acknowledged write is accounted for when its value is in the final document, when it is a listed conflict, when
//! the resource was or may have been deleted, or when a later write can have replaced it *in order*, that is, knowing
//! of it. What can not have known of it:
//!
//! - a write that was over before it was sent;
//! - one of a site that was cut off from its own all the time in between;
//! - a patch whose answer shows a document without it (see [`shows_without`]).
//!
//! If only such writes remain as an explanation, it lost against a concurrent one and should be a conflict.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::history::{Document, Finals, History, Kind, Resource, SITES, Write, WriteId, is_same};
use crate::trouble::{Log, Site, name};

/// What is judged.
pub(super) struct Case<'a> {
    pub(super) history: &'a History,
    pub(super) finals: &'a Finals,
    /// Operations that are kept as conflicts, with their payload.
    pub(super) conflicts: &'a BTreeSet<String>,
    pub(super) log: &'a Log,
    /// Resources, by their create, that may still differ, for a reason that the faults explain and that is shown.
    pub(super) excused: &'a BTreeSet<WriteId>,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Violation {
    pub(super) born: WriteId,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Sites of the set have different documents, or some have none.
    Unequal,
    /// A site that is not of the set has it.
    Elsewhere(Site),
    /// A site has it more than once.
    Twice(Site),
    /// A document that nobody asked for.
    Stranger,
    /// An acknowledged write is nowhere: not in the document, not replaced in order, no conflict.
    Lost { write: WriteId, field: Option<usize> },
    /// The resource is gone, and nobody can have deleted it.
    Gone,
    /// It is there although a delete was acknowledged.
    Undeleted { delete: WriteId },
    /// A write is there although its caller was told that it is not.
    Refused { write: WriteId },
    /// A field has a value that no write to it has.
    Invented { field: usize },
    /// A replica is degraded, and no fault explains it.
    Degraded(String),
    /// An operation waits although nothing that happened explains it.
    Stuck(String),
}

/// How acknowledged writes were accounted for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) present: usize,
    pub(super) superseded: usize,
    pub(super) conflicts: usize,
    pub(super) deleted: usize,
    /// Of resources that may still differ.
    pub(super) excused: usize,
    pub(super) lost: usize,
}

pub(super) fn judge(case: &Case<'_>) -> (Vec<Violation>, Counts) {
    let mut violations = BTreeSet::new();
    let mut counts = Counts::default();
    let mut writes: BTreeMap<WriteId, Vec<&Write>> = BTreeMap::new();
    for write in &case.history.writes {
        writes.entry(write.born).or_default().push(write);
    }
    let none = Default::default();
    for resource in case.history.resources.values() {
        let at = case.finals.get(&resource.born).unwrap_or(&none);
        let own = writes.get(&resource.born).map_or(&[][..], Vec::as_slice);
        let found = of_resource(case, resource, at, own, &mut counts);
        violations.extend(found.into_iter().map(|what| Violation {
            born: resource.born,
            what,
        }));
    }
    let strangers = case
        .finals
        .keys()
        .filter(|born| !case.history.resources.contains_key(born));
    violations.extend(strangers.map(|born| Violation {
        born: *born,
        what: What::Stranger,
    }));
    (violations.into_iter().collect(), counts)
}

fn of_resource(
    case: &Case<'_>,
    resource: &Resource,
    at: &[Vec<Document>; SITES],
    writes: &[&Write],
    counts: &mut Counts,
) -> Vec<What> {
    let mut found = Vec::new();
    for (site, documents) in at.iter().enumerate() {
        if documents.len() > 1 {
            found.push(What::Twice(site));
        }
        if !documents.is_empty() && !resource.sites.contains(&site) {
            found.push(What::Elsewhere(site));
        }
    }
    if case.excused.contains(&resource.born) {
        counts.excused += writes
            .iter()
            .filter(|write| write.acknowledged().is_some())
            .count();
        return found;
    }
    if !is_same(resource, at) {
        found.push(What::Unequal);
    }
    // Where sites differ, what one of them has is not lost.
    let documents: Vec<_> = at.iter().flatten().collect();
    found.extend(odd_values(&documents, writes));
    let existence = existence(&documents, writes);
    let is_gone = existence == Some(What::Gone);
    found.extend(existence);
    if is_gone {
        // Nothing to be said of each write.
        counts.lost += writes
            .iter()
            .filter(|write| write.acknowledged().is_some())
            .count();
        return found;
    }
    for write in writes.iter().filter(|write| write.acknowledged().is_some()) {
        let lost = account(case, &documents, write, writes, counts);
        found.extend(lost);
    }
    found
}

/// Values that no write can have left.
fn odd_values(documents: &[&Document], writes: &[&Write]) -> Vec<What> {
    let mut found = Vec::new();
    for document in documents {
        for (field, value) in document.fields.iter().enumerate() {
            let writer = value.and_then(|id| writes.iter().find(|write| write.id == id));
            match writer {
                Some(write) if write.is_refused() => found.push(What::Refused { write: write.id }),
                Some(write) if write.kind.sets().contains(&field) => {}
                _ => found.push(What::Invented { field }),
            }
        }
    }
    found
}

/// Whether the resource is there as it should be.
fn existence(documents: &[&Document], writes: &[&Write]) -> Option<What> {
    let deletes = || writes.iter().filter(|write| write.kind == Kind::Delete);
    if documents.is_empty() {
        let was_made = writes
            .iter()
            .any(|write| write.kind == Kind::Create && write.acknowledged().is_some());
        let may_be_deleted = deletes().any(|delete| !delete.is_refused());
        return (was_made && !may_be_deleted).then_some(What::Gone);
    }
    let delete = deletes().find(|delete| delete.acknowledged().is_some())?;
    Some(What::Undeleted { delete: delete.id })
}

/// Accounts for one acknowledged write; what is lost of it.
fn account(
    case: &Case<'_>,
    documents: &[&Document],
    write: &Write,
    writes: &[&Write],
    counts: &mut Counts,
) -> Option<What> {
    if write.kind == Kind::Delete {
        // Whether it holds is a question of existence.
        counts.deleted += usize::from(documents.is_empty());
        return None;
    }
    let is_conflict = write
        .acknowledged()
        .is_some_and(|acknowledged| case.conflicts.contains(&acknowledged.operation));
    let is_deleted = documents.is_empty()
        && writes
            .iter()
            .any(|other| other.kind == Kind::Delete && !other.is_refused());
    let is_there = |field: usize| {
        documents
            .iter()
            .any(|document| document.fields[field] == Some(write.id))
    };
    if write.kind.sets().all(is_there) && !documents.is_empty() {
        counts.present += 1;
        return None;
    }
    if is_conflict {
        counts.conflicts += 1;
        return None;
    }
    if is_deleted {
        counts.deleted += 1;
        return None;
    }
    let explained = |field: usize| {
        let mut others = writes.iter().filter(|other| other.id != write.id);
        others.any(|other| other.kind.touches(field) && can_replace(case.log, other, write, writes))
    };
    let lost = write
        .kind
        .sets()
        .find(|field| !is_there(*field) && !explained(*field));
    if lost.is_some() {
        counts.lost += 1;
    } else {
        counts.superseded += 1;
    }
    lost.map(|field| What::Lost {
        write: write.id,
        field: Some(field),
    })
}

/// Whether `later` can have replaced an acknowledged write in order: it can have executed, and can have known of it.
fn can_replace(log: &Log, later: &Write, earlier: &Write, writes: &[&Write]) -> bool {
    if later.is_refused() || later.kind == Kind::Create || later.over_ms() < earlier.sent_ms {
        return false;
    }
    let (Some(of_later), Some(of_earlier)) = (later.acknowledged(), earlier.acknowledged()) else {
        return true;
    };
    let ends = (of_earlier.origin, of_later.origin);
    let apart = log.apart(SITES, ends, earlier.sent_ms, of_later.at_ms);
    let (Some(seen_by_later), Some(seen_by_earlier)) = (&of_later.seen, &of_earlier.seen) else {
        return !apart;
    };
    let is_patch = matches!(later.kind, Kind::Patch(_));
    let shows = is_patch && shows_without(seen_by_later, earlier, seen_by_earlier, writes);
    !apart && !shows
}

/// Whether what a patch was answered proves that it did not know of an earlier write.
///
/// ```text
/// site1:  w1 replaces all ── w2 patches f0   answer: base w1, mark w2
/// site2:  w1 replaces all ── w3 patches f0   answer: base w1, no mark w2
/// ```
///
/// Both came after w1, so no order puts w1 after w2; had site2 executed w2, its mark would be there. Of an earlier
/// *whole* write less can be said: a base that was over before the write was sent was not made knowing of it, so
/// either the patch did not know of the write, or the write had lost against the base. Neither replaces it in order.
fn shows_without(seen: &Document, earlier: &Write, seen_by_earlier: &Document, writes: &[&Write]) -> bool {
    if earlier.kind.is_whole() {
        let base = seen
            .base
            .and_then(|base| writes.iter().find(|write| write.id == base));
        return base.is_some_and(|base| base.id != earlier.id && base.over_ms() < earlier.sent_ms);
    }
    seen.base == seen_by_earlier.base && !seen.marks.contains(&earlier.id)
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unequal => f.write_str("its sites do not have the same"),
            Self::Elsewhere(site) => write!(f, "{} has it and is not a site of it", name(*site)),
            Self::Twice(site) => write!(f, "{} has it more than once", name(*site)),
            Self::Stranger => f.write_str("nobody asked for it"),
            Self::Lost { write, field } => {
                write!(f, "w{write} was acknowledged and is lost")?;
                field.map_or(Ok(()), |field| {
                    write!(
                        f,
                        ": f{field} has another value, which no later write explains, and it is no conflict"
                    )
                })
            }
            Self::Gone => f.write_str("it is gone and was never deleted"),
            Self::Undeleted { delete } => {
                write!(f, "it is there although its delete w{delete} was acknowledged")
            }
            Self::Refused { write } => write!(f, "w{write} was refused and is in the document"),
            Self::Invented { field } => write!(f, "f{field} has a value that no write to it has"),
            Self::Degraded(why) => write!(f, "it is degraded: {why}"),
            Self::Stuck(why) => write!(f, "it waits without a reason: {why}"),
        }
    }
}
