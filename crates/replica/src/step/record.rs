//! What an operation's outcome changes, and who lost.
//!
//! Only concurrent operations can lose. Whoever wrote after having seen the other one meant to overwrite it.
//!
//! ```text
//! paris writes p1 = {size:1}, rome hears of it and writes r1 = {size:2} after [p1]       → no loser
//! paris writes p2 = {size:3} after [p1 r1], rome writes r2 = {size:4} after [p1 r1]      → the earlier of the two in the order
//! ```
//!
//! Each pair is looked at when the second of the two arrives, so once at each site. All sites find the same loser: the
//! rule takes nothing but the two operations. Decided by what has executed already, the answer would depend on the order of arrival,
//! and paris would keep a conflict that rome has never heard of.
//!
//! A delete takes what it had seen. A create that it had not seen was meant by somebody for a new resource, and stays:
//!
//! ```text
//! paris deletes `web` after [c1]; rome, cut off, makes `web` again: c2 after [c1]
//! rome hears of the delete: its replica is c2's, the delete executes nothing
//! paris hears of c2: it has deleted already, c2 makes the replica
//! lyon, which has c1 and c2: c2 executes once more, so that nothing of c1 is left (`restore_survivors`)
//! ```

use std::collections::BTreeSet;

use super::Step;
use crate::{Cause, Conflict, Degraded, Effect, Entry, OpId, Operation, Outcome, State, Verb, loser};

impl Step<'_> {
    /// An operation has its outcome here.
    pub(super) fn conclude(&mut self, id: &OpId, outcome: Outcome) {
        let Some(entry) = self.set.entry_mut(id) else {
            return;
        };
        entry.tries = 0;
        entry.silent = 0;
        entry.until_ms = 0;
        if entry.redo {
            return self.conclude_again(id, outcome);
        }
        entry.state = State::Done(outcome);
        let op = entry.op.clone();
        self.set.done.advance(id);
        self.set.time = self.set.time.max(op.time);
        self.set.digest = None;
        if op.verb.is_for_application() && self.set.last.as_ref().is_none_or(|last| *last < op.rank()) {
            self.set.last = Some(op.rank());
        }
        if self.set.forgone.remove(id) {
            // It has made nothing: the set goes on without it.
        } else if self.set.is_born_again(&op) {
            self.set.note_twin(&op);
        } else {
            self.set.note_life(&op);
        }
        if outcome != Outcome::Superseded && !self.set.is_covered(&op) {
            self.set.divide(&op);
        }
        if matches!(op.verb, Verb::Delete) {
            self.concluded_delete(outcome);
        }
        self.tell_all();
    }

    fn concluded_delete(&mut self, outcome: Outcome) {
        // Nothing that a delete covers is executed once more.
        let covered: BTreeSet<_> = self
            .set
            .log
            .values()
            .filter(|entry| entry.redo && self.set.is_covered(&entry.op))
            .map(|entry| entry.op.id.clone())
            .collect();
        self.set
            .log
            .change(|entry| covered.contains(&entry.op.id) && std::mem::take(&mut entry.redo));
        self.set.divide_again();
        if self.set.deleted.is_none() {
            return self.restore_survivors();
        }
        // Where the application keeps its replica, it is one too many.
        if outcome == Outcome::Executed {
            self.set.degraded = None;
            self.set.is_inherited = false;
            if self.set.local.take().is_some() {
                self.moved();
            }
        }
    }

    /// A delete has left a create that it had not seen. What the replica has of the covered ones goes: the last
    /// create is executed again, and what follows it.
    pub(super) fn restore_survivors(&mut self) {
        let set = &*self.set;
        let creates = set.log.values().rev();
        let last = creates
            .filter(|entry| set.creates.contains_key(&entry.op.id))
            .find(|entry| matches!(entry.op.verb, Verb::Create(_)));
        // A create that is no longer kept cannot be executed again. Of anything else that is not kept, nothing follows
        // one that is: it has executed everywhere, and so has all that comes before it.
        let is_kept = set.creates.values().all(|token| {
            let mut kept = set.log.values();
            kept.any(|entry| entry.op.token == *token)
        });
        let Some(last) = last.filter(|_| is_kept) else {
            // This replica may still have what the delete took: one that could be restored goes before it.
            return self.degrade(None, 0, None);
        };
        let rank = last.op.rank();
        let later = || set.log.range(&rank..).filter(|entry| entry.is_done());
        let was_seen = |entry: &&Entry| entry.may_have_executed() && set.is_covered(&entry.op);
        // What is no longer kept may have come after it, and be covered now.
        let is_first = last.op.after.covers(&set.pruned_writes);
        if is_first && later().all(|entry| !was_seen(&entry)) && last.has_executed() {
            return;
        }
        let again = later().filter(|entry| {
            let is_delete = matches!(entry.op.verb, Verb::Delete);
            entry.op.verb.is_for_application() && !is_delete && !set.is_covered(&entry.op)
        });
        let (again, never): (Vec<_>, Vec<_>) = again.partition(|entry| {
            let is_create = matches!(entry.op.verb, Verb::Create(_));
            is_create || entry.op.verb.may_follow_again()
        });
        let is_complete = never.is_empty();
        let again: BTreeSet<_> = again.iter().map(|entry| entry.op.id.clone()).collect();
        self.set.log.change(|entry| {
            let is_again = again.contains(&entry.op.id) && !entry.has_failed();
            entry.redo |= is_again;
            is_again
        });
        if !is_complete {
            self.set.want_comparison();
        }
    }

    /// An operation that had its outcome was executed once more.
    fn conclude_again(&mut self, id: &OpId, outcome: Outcome) {
        self.set.digest = None;
        let Some(entry) = self.set.entry_mut(id) else {
            return;
        };
        entry.redo = false;
        // What was covered, or superseded by a delete that is still to come, has an effect from now on.
        let had_executed = entry.has_executed();
        let before = std::mem::replace(&mut entry.state, State::Done(outcome));
        // What had executed and is refused at its new place is missing from now on.
        if had_executed && !entry.has_failed() {
            entry.state = before;
            return;
        }
        let is_cause = |degraded: &Degraded| degraded.operation.as_ref() == Some(id);
        if outcome == Outcome::Executed && self.set.degraded.as_ref().is_some_and(is_cause) {
            // Something else that it could not execute may still be missing.
            let next = self.set.log.values().find(|entry| entry.has_failed());
            self.set.degraded = next.map(|entry| Degraded {
                operation: Some(entry.op.id.clone()),
                status: entry.refusal(),
                said: entry.said.clone(),
            });
        }
    }

    pub(super) fn moved(&mut self) {
        self.effects.push(Effect::Moved(self.set.record.meta.clone()));
    }

    /// Wakes what waits for this resource, or for its end, wherever that was changed: a site that leaves, or deletes what it
    /// never had, ends a wait too.
    pub(super) fn tell_presence(&mut self) {
        let is_told = |effect: &Effect| matches!(effect, Effect::Moved(_));
        if self.presence != self.set.presence() && !self.effects.iter().any(is_told) {
            self.moved();
        }
    }

    /// Every pair of concurrent operations meets here once, at every site.
    pub(super) fn find_losers(&mut self, op: &Operation) {
        let lost: Vec<_> = self
            .set
            .log
            .values()
            .filter_map(|entry| {
                let other = &entry.op;
                let loser = loser(op, other)?;
                let winner = if loser.id == op.id { other } else { op };
                Some((loser.clone(), winner.clone()))
            })
            .collect();
        for (loser, winner) in lost {
            self.conflict(loser, Cause::Winner(Box::new(winner)));
        }
    }

    pub(super) fn conflict(&mut self, loser: Operation, cause: Cause) {
        if self.is_dismissed(&loser) {
            return;
        }
        // That it was overwritten says less than that it was left out altogether.
        let is_left_out = !matches!(cause, Cause::Winner(_));
        if is_left_out || !self.set.conflicts.contains_key(&loser.id) {
            let id = loser.id.clone();
            self.set.conflicts.insert(id, Conflict { loser, cause });
        }
        self.bound_conflicts();
    }

    /// Whether an operator has dealt with it. Nobody has seen a conflict about what was written after the word that it is
    /// dealt with: numbers can be guessed, and writes that are to come must not lose without a trace.
    fn is_dismissed(&self, op: &Operation) -> bool {
        let is_before = |entry: &Entry| {
            let is_it = matches!(&entry.op.verb, Verb::Dismiss { loser } if *loser == op.id);
            is_it && op.after.includes(&entry.op.id)
        };
        self.set.dismissed.contains(&op.id) && !self.set.log.values().any(is_before)
    }

    /// Two writers that fight would fill the disk: the oldest conflicts go, and are counted.
    pub(super) fn bound_conflicts(&mut self) {
        while self.set.conflicts.len() > self.context.tuning.conflicts_max {
            let oldest = self
                .set
                .conflicts
                .values()
                .min_by_key(|conflict| conflict.loser.rank());
            let Some(id) = oldest.map(|conflict| conflict.loser.id.clone()) else {
                return;
            };
            self.set.conflicts.remove(&id);
            self.set.conflicts_dropped = self.set.conflicts_dropped.saturating_add(1);
        }
    }

    /// Some of what follows it in the order is no longer kept, or must not be executed again: it cannot be put in its place.
    pub(super) fn too_late(&mut self, op: &Operation) {
        self.conflict(op.clone(), Cause::TooLate);
        self.set.want_comparison();
        self.conclude(&op.id, Outcome::Lost);
    }
}
