//! What an operator may do about operations that do not get on.

use std::collections::BTreeSet;

use super::Step;
use crate::{LocalId, OpId, Operation, Outcome, Secret, State, Verb, Why};

impl Step<'_> {
    /// A credential for an operation that waits for one. It goes on at once.
    pub(super) fn credential(&mut self, id: &OpId, credential: Secret) {
        match self.set.entry_mut(id) {
            Some(entry) if entry.redo || !entry.is_done() => {
                entry.credential = Some(credential);
                entry.until_ms = 0;
                if entry.state == State::Waiting(Why::NeedsCredentials) {
                    entry.state = State::Waiting(Why::Turn);
                }
            }
            _ => {
                // The operation by which this site came in: its credential makes the replica.
                if let Some(install) = &mut self.set.install {
                    install.credential = Some(credential);
                    install.until_ms = 0;
                }
            }
        }
    }

    /// Everything that waits for its next try is tried now, what was refused too. What cannot be retried,
    /// because it is no longer kept, is repaired from another replica.
    pub(super) fn retry_now(&mut self) {
        self.set.log.change(|entry| {
            let waits = entry.until_ms > 0;
            entry.until_ms = 0;
            // Whoever asks for it has seen that the time is wrong.
            let is_quarantined = entry.state == State::Waiting(Why::Quarantined);
            let is_spent = entry.state == State::Waiting(Why::SPENT);
            if is_quarantined || is_spent {
                entry.state = State::Waiting(Why::Turn);
                entry.silent = 0;
            }
            waits || is_quarantined || is_spent
        });
        self.send_again();
        if let Some(install) = &mut self.set.install {
            install.until_ms = 0;
        }
        if self.set.degraded.is_some() {
            self.set.repair = None;
            // Not what is refused from now on: nobody has looked at that.
            let failed = self.set.log.values().filter(|entry| entry.has_failed());
            self.set.reopens = failed.map(|entry| entry.op.id.clone()).collect();
            self.set.want_comparison();
        }
    }

    /// Lets what could not execute take its place, once nothing is under way: what is under way may have to follow it,
    /// and is not known to have executed before its end.
    pub(super) fn reopen_when_free(&mut self) {
        let wanted = std::mem::take(&mut self.set.reopens);
        if !wanted.is_empty() {
            self.reopen(&wanted);
        }
    }

    /// Lets what could not execute here execute again. It counts as done for the others, who no longer wait
    /// for it: so it is executed like something that came late.
    fn reopen(&mut self, wanted: &BTreeSet<OpId>) {
        let deletes = self.set.known_deletes();
        let kept = self.set.log.values();
        let kept = kept.filter(|entry| entry.has_failed() && wanted.contains(&entry.op.id));
        let counts =
            |op: &Operation| !matches!(op.verb, Verb::Delete) && !self.set.is_covered_by(&deletes, op);
        // What came after it and was dropped here cannot follow it again: it would be undone, and everywhere if this site
        // is the reference.
        let is_in_time = |op: &Operation| op.after.covers(&self.set.pruned_writes);
        let kept = kept.filter(|entry| counts(&entry.op) && is_in_time(&entry.op));
        let failed: Vec<_> = kept.map(|entry| entry.op.clone()).collect();
        let begins = |op: &Operation| matches!(op.verb, Verb::Create(_));
        let may_begin = |op: &Operation| begins(op) && self.needs_are_met(&op.needs);
        if self.set.local.is_none() && !failed.first().is_some_and(may_begin) {
            return;
        }
        for op in failed {
            let Some(followers) = self.followers(&op).filter(|_| self.needs_are_met(&op.needs)) else {
                continue;
            };
            for id in std::iter::once(op.id).chain(followers) {
                if let Some(entry) = self.set.entry_mut(&id) {
                    entry.redo = true;
                }
            }
        }
    }

    /// An operator gives up an operation that waits here. The other sites are not asked.
    pub(super) fn abandon(&mut self, id: &OpId) {
        let is_under_way = self.set.job.is_some();
        let Some(entry) = self.set.log.get(id) else {
            return;
        };
        let is_next = self.set.done.covers(&entry.op.after) && self.set.done.precedes(id);
        let has_effect = entry.op.verb.is_for_application();
        let status = match entry.state {
            State::Waiting(Why::Blocked { status } | Why::Retry { status: Some(status) }) => status,
            State::Waiting(Why::NeedsCredentials) => 401,
            _ => 0,
        };
        let said = entry.said.clone();
        if is_under_way || !has_effect {
            return;
        }
        if entry.redo {
            // It has executed once; what is given up is its place in the order.
            self.degrade(Some(id.clone()), status, said);
            if let Some(entry) = self.set.entry_mut(id) {
                entry.redo = false;
                entry.state = State::Done(Outcome::Abandoned);
            }
        } else if !entry.is_done() && is_next {
            self.degrade(Some(id.clone()), status, said);
            self.conclude(id, Outcome::Abandoned);
        }
    }

    /// An operator says which resource of this site's application is the replica: one that has the name, or
    /// one that was found after an accident. It takes the state of the others.
    pub(super) fn claim(&mut self, local: LocalId) {
        if self.set.local.is_none() && self.set.deleted.is_none() && self.set.job.is_none() {
            self.set.local = Some(local);
            // What is known so far is about another replica, or none.
            self.set.digest = None;
            self.set.repair = None;
            self.set.want_comparison();
            self.moved();
            self.tell_all();
        }
    }
}
