//! What a story is made of: lines, and what was seen before each of them.

mod change;
pub(crate) mod words;

use std::collections::BTreeMap;

use cheops_replica::{MetaId, Token};

pub(crate) use change::Seen;

#[derive(Debug, Default)]
pub struct Story {
    pub(crate) lines: Vec<Line>,
    pub(crate) seen: BTreeMap<(usize, MetaId), Seen>,
    /// What each request was about.
    pub(crate) tokens: BTreeMap<Token, MetaId>,
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) at_ms: u64,
    /// None: it is about all of them.
    pub(crate) set: Option<MetaId>,
    pub(crate) text: String,
}
