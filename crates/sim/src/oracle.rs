//! What a client, and somebody who sees all disks, knows.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Answer, MetaId, OpId, Operation, Token};
use cheops_types::SiteName;

/// The outside view of one schedule. It is fed by answers, sends and commits, never asked by the engine.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Acknowledged with success: the operation and where.
    pub accepted: BTreeMap<Token, (MetaId, OpId)>,
    pub refused: BTreeSet<Token>,
    pub unknown: BTreeSet<Token>,
    /// Every operation that ever was in a log, by set.
    pub operations: BTreeMap<MetaId, BTreeMap<OpId, Operation>>,
    /// The sites that ever were to be part of a set.
    pub involved: BTreeMap<MetaId, BTreeSet<SiteName>>,
    /// Conflicts that were dismissed.
    pub dismissed: BTreeSet<(MetaId, OpId)>,
    /// Attempts at what must not be repeated, by site and token, that have no recorded end.
    pub open: BTreeSet<(usize, Token)>,
    /// Sets with operations that could not be put in order, or with state that was copied.
    pub copied: BTreeSet<MetaId>,
    /// Sites that lost their store or were removed by force.
    pub lost: BTreeSet<SiteName>,
    /// Sides that an operator gave up. What such a side had pruned by itself is not kept as conflicts.
    pub yielded: BTreeSet<MetaId>,
    /// Sets that a site was removed from by force.
    pub forced: BTreeSet<MetaId>,
    /// Sets that began with one site and got the others later.
    pub adopted: BTreeSet<MetaId>,
    pub violations: Vec<String>,
}

impl Oracle {
    pub fn hear(&mut self, set: &MetaId, token: Token, answer: &Answer) {
        match answer {
            Answer::Accepted { operation, .. } | Answer::Noted { operation } => {
                self.accepted.insert(token, (set.clone(), operation.clone()));
            }
            Answer::Refused { .. } | Answer::NotHere(_) | Answer::Gone => {
                self.refused.insert(token);
            }
            Answer::Unknown { .. } => {
                self.unknown.insert(token);
            }
        }
    }

    pub fn violation(&mut self, what: String) {
        if self.violations.len() < 8 {
            self.violations.push(what);
        }
    }
}
