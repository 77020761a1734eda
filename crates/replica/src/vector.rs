//! What a site has of a set's operations: per author, all up to a number.
//!
//! ```text
//! [paris 3, rome 1]   has p1 p2 p3 r1
//! includes p2, not p4; precedes p4 and r2, not p5
//! covers [paris 2], not [paris 2, rome 2]
//! ```
//!
//! There are no gaps. A site that held p1 and p3 without p2 could not say so in one number, would say 3, and nobody would ever
//! send p2. So what arrives out of its author's order is not held, and is sent again.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Author, OpId};

/// A version vector. It says "all of this author's operations up to this one", so it stays short
/// whatever was pruned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vector(BTreeMap<Author, u64>);

impl Vector {
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of the author's last operation, 0 when there is none.
    pub fn last(&self, author: &Author) -> u64 {
        self.0.get(author).copied().unwrap_or(0)
    }

    pub fn includes(&self, id: &OpId) -> bool {
        id.seq <= self.last(&id.author)
    }

    /// Whether `id` is the author's next one.
    pub fn precedes(&self, id: &OpId) -> bool {
        id.seq.checked_sub(1) == Some(self.last(&id.author))
    }

    /// Whether everything in `other` is in this one.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|(author, seq)| *seq <= self.last(author))
    }

    /// Adds one operation.
    ///
    /// # Panics
    /// When it is not its author's next one: a vector has no gaps.
    pub fn advance(&mut self, id: &OpId) {
        assert!(self.precedes(id), "{id} does not follow {self:?}");
        self.0.insert(id.author.clone(), id.seq);
    }

    /// Adds an operation and all of its author's before it.
    pub fn raise(&mut self, id: &OpId) {
        if !self.includes(id) {
            self.0.insert(id.author.clone(), id.seq);
        }
    }

    /// Adds everything that is in `other`.
    pub fn join(&mut self, other: &Self) {
        for (author, seq) in &other.0 {
            if *seq > self.last(author) {
                self.0.insert(author.clone(), *seq);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Author, u64)> {
        self.0.iter().map(|(author, seq)| (author, *seq))
    }

    /// How many authors it has something of.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many operations it has.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().fold(0, |total, seq| total.saturating_add(*seq))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As a list of pairs, so that formats whose maps have text keys can hold it.
impl Serialize for Vector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|pairs| Self(pairs.into_iter().collect()))
    }
}
