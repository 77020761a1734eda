//! Twists while a schedule is played: meddling, payloads that travel, writes that turn out to be something else.

use cheops_replica::{Attempt, Draft, Event, Footprint, MetaId, Recast, Verb, Work};
use cheops_types::KeptBody;

use super::{Happening, World};
use crate::Change;

/// How often a site that lacks a payload asks for it.
const FETCH_MS: u64 = 90;

/// What somebody does to a replica without telling the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meddling {
    /// Sets the field `b`.
    Change(u64),
    Delete,
}

impl World {
    pub(super) fn meddle(&mut self, at: usize, meta: &MetaId, meddling: Meddling) {
        let local = self.nodes[at].set(meta).and_then(|set| set.local()).cloned();
        let Some(local) = local else {
            return;
        };
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != at);
        let has_replica = |node: &crate::Node| {
            let stays = |set: &&cheops_replica::Set| {
                let me = set.members().get(&node.name);
                me.is_some_and(|me| me.leaving.is_none()) && set.degraded().is_none()
            };
            let set = node.set(meta).filter(stays);
            let local = set.and_then(|set| set.local());
            local.is_some_and(|local| node.app.resources.contains_key(local))
        };
        let is_last = !others.map(|(_, node)| node).any(has_replica);
        let app = &mut self.nodes[at].app;
        match meddling {
            Meddling::Change(value) => {
                if let Some(resource) = app.resources.get_mut(&local) {
                    resource.fields.insert("b".to_owned(), value);
                }
            }
            // Of what is nowhere else, nothing could be made again.
            Meddling::Delete if is_last => return,
            Meddling::Delete => drop(app.resources.remove(&local)),
        }
        self.tell_site(
            at,
            &format!("has somebody at its application: {meddling:?} of {meta}"),
        );
        self.oracle.meddled.insert(meta.clone());
    }

    /// A body that is long goes to the spool first. (Here the hash is the body itself: it is short enough.)
    pub(super) fn spool(&mut self, at: usize, draft: &mut Draft) {
        let is_change = matches!(draft.verb, Verb::Merge | Verb::Action { .. });
        let KeptBody::Inline(bytes) = &draft.request.body else {
            return;
        };
        if !is_change || bytes.len() > 32 || !self.is_twisted(self.plan.twists.spooled) {
            return;
        }
        let mut hash = [b' '; 32];
        hash[..bytes.len()].copy_from_slice(bytes);
        let bytes = bytes.len() as u64;
        draft.request.body = KeptBody::Spooled { hash, bytes };
        self.nodes[at].disk.payloads.insert(hash);
    }

    /// Chance that schedules without twists have nothing of: not even the dice are thrown.
    pub(crate) fn is_twisted(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.chance(per_mille)
    }

    /// Whether a site has what it needs to execute a request.
    pub(super) fn has_payload(&self, at: usize, body: &KeptBody) -> bool {
        match body {
            KeptBody::Inline(_) => true,
            KeptBody::Spooled { hash, .. } => self.nodes[at].disk.payloads.contains(hash),
        }
    }

    /// After a commit: what the set needs is fetched, and what no set refers to any more goes.
    pub(super) fn keep_payloads(&mut self, at: usize, meta: &MetaId) {
        if self.plan.twists.spooled == 0 {
            return;
        }
        let node = &mut self.nodes[at];
        let Some(set) = node.disk.sets.get(meta) else {
            return;
        };
        let wanted: Vec<_> = set.bare().filter_map(|op| op.payload().copied()).collect();
        let mut needed = std::collections::BTreeSet::new();
        for set in node.disk.sets.values() {
            needed.extend(set.log().filter_map(|entry| entry.op.payload().copied()));
            let spooled = |body: &KeptBody| match body {
                KeptBody::Spooled { hash, .. } => Some(*hash),
                KeptBody::Inline(_) => None,
            };
            needed.extend(set.queue().filter_map(|draft| spooled(&draft.request.body)));
            if let Some(Work::Accept { op, .. }) = set.job().map(|job| &job.work) {
                needed.extend(op.payload().copied());
            }
            needed.extend(
                set.conflicts()
                    .filter_map(|conflict| conflict.loser.payload().copied()),
            );
        }
        node.disk.payloads.retain(|hash| needed.contains(hash));
        for hash in wanted {
            let set = meta.clone();
            if self.nodes[at].fetches.insert((set.clone(), hash)) {
                self.at(self.now_ms + FETCH_MS, Happening::Payload { node: at, set, hash });
            }
        }
    }

    /// Asks whoever has it.
    pub(super) fn fetch(&mut self, at: usize, meta: &MetaId, hash: [u8; 32]) {
        self.nodes[at].fetches.remove(&(meta.clone(), hash));
        if !self.nodes[at].up {
            return;
        }
        if self.bring_payload(at, hash) {
            self.drive(at, meta, Event::Payload { hash, is_here: true });
        } else {
            self.keep_payloads(at, meta);
        }
    }

    /// Gets a payload from whoever can be reached and has it. False where nobody does.
    fn bring_payload(&mut self, at: usize, hash: [u8; 32]) -> bool {
        let can_reach = |from: &usize| !self.cut[*from][at] && !self.cut[at][*from] && self.nodes[*from].up;
        let has_it = |from: &usize| self.nodes[*from].disk.payloads.contains(&hash);
        let is_found = (0..self.nodes.len()).any(|from| (from == at || can_reach(&from)) && has_it(&from));
        if is_found {
            self.nodes[at].disk.payloads.insert(hash);
        }
        is_found
    }

    /// A conflict may be re-applied where its payload never came, because later operations covered it first. What is
    /// accepted is in no log yet, for which payloads are fetched: whoever executes it asks for it.
    pub(super) fn bring_accepted(&mut self, at: usize, meta: &MetaId, body: &KeptBody) {
        let job = self.nodes[at].set(meta).and_then(|set| set.job());
        let is_accepted = job.is_some_and(|job| matches!(job.work, Work::Accept { .. }));
        if let (true, KeptBody::Spooled { hash, .. }) = (is_accepted, body) {
            self.bring_payload(at, *hash);
        }
    }

    /// A write that succeeded may be recorded as the difference that it made: that is told first.
    pub(super) fn recast(&mut self, at: usize, meta: &MetaId, event: &Event) {
        let Event::Executed {
            ticket,
            attempt: Attempt::Answered {
                status: 200..=299, ..
            },
        } = event
        else {
            return;
        };
        let job = self.nodes[at].set(meta).and_then(|set| set.job()).cloned();
        let Some(Work::Accept { op, .. }) = job.filter(|job| job.ticket == *ticket).map(|job| job.work)
        else {
            return;
        };
        if !self.oracle.recasts.contains(&op.token) {
            return;
        }
        let Change::Fields(fields) = Change::of(&op.request.body) else {
            return;
        };
        let paths: Vec<_> = fields.keys().map(|name| format!("/fields/{name}")).collect();
        let recast = Recast::Merge {
            touches: Footprint::parts(paths.iter().map(String::as_str)),
            request: op.request.clone(),
        };
        let (ticket, recast) = (*ticket, Box::new(recast));
        self.drive(at, meta, Event::Recast { ticket, recast });
    }
}
