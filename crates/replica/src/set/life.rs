//! Which creates a resource consists of, and what deletes have taken away.
//!
//! Two sites may create one name at the same time, and a deleted name may be made again. All of that is one set:
//!
//! ```text
//! site a   create c1 ──── delete d (after c1)
//! site b   create c2 ──── update u (births c2)
//!
//! everywhere: c1 is covered by d; c2, which d had not seen, stays, and u with it
//! ```
//!
//! A create is *covered* when a delete comes after it. Any other operation is covered when all the creates that it was
//! written on are. What is covered counts for nothing; the rest counts in the order of the set. So all sites
//! come to the same, in whichever order they hear of it.

use super::{Entry, Set, State, Why};
use std::collections::BTreeSet;

use crate::{OpId, Operation, Token, Vector, Verb};

impl Set {
    /// What the deletes have seen that are known here and that nothing but this site's own work holds up.
    pub(crate) fn known_deletes(&self) -> Vec<&Vector> {
        let is_known = |entry: &&Entry| {
            matches!(entry.op.verb, Verb::Delete)
                && entry.state != State::Waiting(Why::Quarantined)
                && self.held.covers(&entry.op.after)
        };
        self.log
            .values()
            .filter(is_known)
            .map(|entry| &entry.op.after)
            .collect()
    }

    /// Whether nothing is left of an operation once the deletes have executed.
    pub(crate) fn is_covered_by(&self, deletes: &[&Vector], op: &Operation) -> bool {
        let goes = |create: &OpId| {
            let is_gone = self.done.includes(create) && !self.creates.contains_key(create);
            is_gone || deletes.iter().any(|after| after.includes(create))
        };
        match &op.verb {
            Verb::Delete => false,
            verb if !verb.is_for_application() => false,
            Verb::Create(_) => goes(&op.id),
            // Recorded before births were: the only create that there was.
            _ if op.births.is_empty() => self.deleted.is_some() || !deletes.is_empty(),
            _ => op.births.iter().all(goes),
        }
    }

    /// The first operation that is to be executed again, unless a known delete takes it away before.
    pub(crate) fn next_again(&self) -> Option<&Entry> {
        let deletes = self.known_deletes();
        let mut again = self.log.values().filter(|entry| entry.redo);
        again.find(|entry| !self.is_covered_by(&deletes, &entry.op))
    }

    /// Whether deletes that have executed here have left nothing of an operation that has its outcome.
    pub(crate) fn is_covered(&self, op: &Operation) -> bool {
        self.is_covered_by(&[], op)
    }

    /// Takes note of a create under a second number: it lives as long as the first.
    pub(crate) fn note_twin(&mut self, op: &Operation) {
        let is_it = |(create, token): (&OpId, &Token)| is_same(create, *token, &op.id, op.token);
        if self.creates.iter().any(is_it) {
            self.creates.insert(op.id.clone(), op.token);
        }
    }

    /// Takes note of a create or a delete that has its outcome.
    pub(crate) fn note_life(&mut self, op: &Operation) {
        match &op.verb {
            Verb::Create(_) => {
                self.creates.insert(op.id.clone(), op.token);
                self.deleted = None;
            }
            Verb::Delete => {
                let covered = self
                    .creates
                    .iter()
                    .filter(|(create, _)| op.after.includes(create));
                let covered: BTreeSet<_> = covered
                    .map(|(create, token)| (create.author.site.clone(), *token))
                    .collect();
                self.creates
                    .retain(|create, token| !covered.contains(&(create.author.site.clone(), *token)));
                self.bury(covered.into_iter().map(|(_, token)| token));
                if self.creates.is_empty() {
                    self.deleted = Some(op.id.clone());
                }
            }
            _ => {}
        }
    }

    /// Remembers the requests of creates that are gone.
    pub(crate) fn bury(&mut self, gone: impl IntoIterator<Item = Token>) {
        /// A store that was set back brings back what was written not long ago.
        const BURIED_MAX: usize = 64;
        // Another site may tell of many more than it keeps: only the last ones are looked for.
        let gone: Vec<_> = gone.into_iter().collect();
        let surplus = gone.len().saturating_sub(BURIED_MAX);
        for token in gone.into_iter().skip(surplus) {
            if !self.buried.contains(&token) {
                self.buried.push_back(token);
            }
        }
        let excess = self.buried.len().saturating_sub(BURIED_MAX);
        self.buried.drain(..excess);
    }

    /// Whether a create stays when a delete has executed.
    pub(crate) fn survives(&self, delete: &Operation) -> bool {
        let is_covered = |(create, token): (&OpId, &Token)| {
            let mut twins = self
                .creates
                .iter()
                .filter(|(id, of)| is_same(id, **of, create, *token));
            twins.any(|(twin, _)| delete.after.includes(twin))
        };
        self.creates.iter().any(|it| !is_covered(it))
    }
}

/// Whether two creates are one request under two numbers (`Operation::is_same_write`).
fn is_same(a: &OpId, token: Token, b: &OpId, other: Token) -> bool {
    token == other && a.author.site == b.author.site
}
