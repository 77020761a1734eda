//! What a client, and somebody who sees all disks, knows.

use std::collections::{BTreeMap, BTreeSet};

use cheops_replica::{Answer, MetaId, OpId, Operation, Token};
use cheops_types::SiteName;

use crate::Resource;

/// The outside view of one schedule. It is fed by answers, sends and commits, never asked by the engine.
#[derive(Debug, Default)]
pub struct Oracle {
    /// Acknowledged with success: the operation and where.
    pub accepted: BTreeMap<Token, (MetaId, OpId)>,
    pub refused: BTreeSet<Token>,
    pub unknown: BTreeSet<Token>,
    /// Every operation that ever was in a log, by set.
    pub operations: BTreeMap<MetaId, BTreeMap<OpId, Operation>>,
    /// Operations whose number was given to another one, because a store was set back and nobody else had heard of them.
    pub renumbered: BTreeMap<MetaId, Vec<Operation>>,
    /// What was to be accepted and was never seen in a log. An operation of a site that is alone is dropped in the very
    /// step that accepts it; what was in doubt may have left something and be no operation.
    pub accepting: BTreeMap<MetaId, BTreeMap<Token, Operation>>,
    /// The sites that ever were to be part of a set.
    pub involved: BTreeMap<MetaId, BTreeSet<SiteName>>,
    /// The sites that a set begins with.
    pub first: BTreeMap<MetaId, BTreeSet<SiteName>>,
    /// Conflicts that were dismissed.
    pub dismissed: BTreeSet<(MetaId, OpId)>,
    /// Attempts at what must not be repeated, by site and token, that have no recorded end.
    pub open: BTreeSet<(usize, Token)>,
    /// Sets with state that was copied.
    pub copied: BTreeSet<MetaId>,
    /// Sets in which something happened for which state may be copied.
    pub reasons: BTreeSet<MetaId>,
    /// Operations that could not be put in order somewhere.
    pub out_of_order: BTreeSet<(MetaId, OpId)>,
    /// Sites that lost their store or were removed by force.
    pub lost: BTreeSet<SiteName>,
    /// Sites whose store was set back.
    pub set_back: BTreeSet<SiteName>,
    /// Sides that an operator gave up. What such a side had pruned by itself is not kept as conflicts.
    pub yielded: BTreeSet<MetaId>,
    /// Sets that a site was removed from by force.
    pub forced: BTreeSet<MetaId>,
    /// Sets that began with one site and got the others later.
    pub adopted: BTreeMap<MetaId, Resource>,
    /// Sets with a replica that somebody changed behind the agents.
    pub meddled: BTreeSet<MetaId>,
    /// Writes that are recorded as the difference that they made.
    pub recasts: BTreeSet<Token>,
    /// Writes that demand something of the resource.
    pub conditional: BTreeSet<Token>,
    /// Writes that were promised, once that is durable, and where.
    pub promises: BTreeMap<Token, (usize, MetaId)>,
    pub violations: Vec<String>,
}

impl Oracle {
    pub fn hear(&mut self, set: &MetaId, token: Token, answer: &Answer) {
        match answer {
            Answer::Accepted { operation, .. } | Answer::Noted { operation } => {
                self.accepted.insert(token, (set.clone(), operation.clone()));
                let accepting = self.accepting.get_mut(set);
                let noted = accepting.and_then(|accepting| accepting.remove(&token));
                let known = self.operations.entry(set.clone()).or_default();
                // A store that was set back may execute what it has shipped before: its caller hears the number that
                // it has, and the operation is what it was. One that a site alone has forgotten with its disk may
                // have had the number before; so may one whose message came too late to be heard.
                if known.get(operation).is_none_or(|before| before.token != token) {
                    let before = known.remove(operation);
                    self.renumbered.entry(set.clone()).or_default().extend(before);
                    if let Some(mut op) = noted {
                        op.id = operation.clone();
                        known.insert(operation.clone(), op);
                    }
                }
            }
            Answer::Refused { .. } | Answer::NotHere(_) | Answer::Gone => {
                self.refused.insert(token);
            }
            Answer::Unknown { .. } => {
                self.unknown.insert(token);
                self.reasons.insert(set.clone());
            }
        }
    }

    pub fn violation(&mut self, what: String) {
        if self.violations.len() < 8 {
            self.violations.push(what);
        }
    }
}
