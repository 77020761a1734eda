//! What this site executes next. One resource, one execution at a time.
//!
//! The order of a set is the same at every site, arrivals are not. An operation that arrives late takes its place, and what
//! comes after it in the order executes once more. Nothing is taken back at the application: it is set to the same end.
//!
//! ```text
//! order      r1: replace {size:1}    r2: merge {color:red}    r3: replace {size:3}     (by time, then site)
//! paris has executed r1 r3, then r2 arrives: r3 leaves nothing of it            → covered, not executed
//! rome  has executed r1, r2, then r3 arrives: it is the last                    → executed
//! lyon  has executed r1, r4: merge {size:4}, then r2 arrives: both leave a part → r2, then r4 once more
//! ```
//!
//! Between the late one and the last one of those that follow, the application holds a state that belongs to no moment of the
//! order. So nothing new is accepted until all of them have executed again (`must_restore_order`). An action cannot be executed
//! twice. Where one follows, the late operation is too late: it is kept as a conflict, and the replicas are compared.

use cheops_types::SiteName;

use super::Step;
use crate::{
    Cause, Effect, Entry, Execution, Form, LocalId, Need, OpId, Operation, Outcome, Phase, Presence,
    Recognise, Relation, Secret, Standing, State, Token, Verb, Why, Work, relation,
};

/// How a late operation fits in.
enum Fit {
    /// It executes, and these after it once more.
    Before(Vec<OpId>),
    Covered,
    /// What follows it cannot be executed again.
    Impossible,
}

impl Step<'_> {
    /// Begins whatever can begin.
    pub(super) fn advance(&mut self) {
        if self.set.job.is_some() && !self.end_what_is_over() {
            self.refuse_behind_doubt();
            return self.resolve_doubt();
        }
        if self.set.standing != Standing::Member {
            return self.refuse_queue();
        }
        self.settle_past();
        self.reopen_when_free();
        while self.set.job.is_none() {
            let began = self.begin_install()
                || self.begin_replay()
                || self.begin_vacate()
                || (!self.must_restore_order() && self.begin_accept())
                || self.begin_read();
            if !began {
                return;
            }
        }
    }

    /// Whether executed operations wait to be executed again. Nothing new may come between.
    fn must_restore_order(&self) -> bool {
        self.set.install.is_some() || self.set.log.values().any(|entry| entry.redo)
    }

    /// Begins with, or concludes, the first operation in order that can. False when there is none.
    fn begin_replay(&mut self) -> bool {
        if self.set.install.is_some() {
            return false;
        }
        let deletes = self.set.known_deletes();
        let mut next = None;
        for entry in self.set.log.values() {
            // What a delete is about to take away does not hold that up.
            let is_again = entry.redo && !self.set.is_covered_by(&deletes, &entry.op);
            if is_again {
                if entry.until_ms <= self.now_ms() {
                    next = Some((entry.op.id.clone(), false));
                }
                break;
            }
            if entry.is_done() {
                continue;
            }
            let is_covered = self.set.is_covered_by(&deletes, &entry.op);
            if self.is_ready(&entry.op, entry.state, entry.until_ms, is_covered) {
                next = Some((entry.op.id.clone(), is_covered));
                break;
            }
        }
        let Some((id, is_covered)) = next else {
            self.wait_for_needs();
            return false;
        };
        self.replay(&id, is_covered);
        true
    }

    /// What is due and must wait for another resource is woken by that one, not by the clock.
    fn wait_for_needs(&mut self) {
        let is_due = |entry: &Entry| {
            let waits = matches!(
                entry.state,
                State::Waiting(Why::Retry { .. } | Why::Blocked { .. })
            );
            waits
                && entry.state != State::Waiting(Why::SPENT)
                && entry.until_ms <= self.now_ms()
                && !self.needs_are_met(&entry.op.needs)
        };
        let due = self.set.log.values().filter(|entry| is_due(entry));
        for id in due.map(|entry| entry.op.id.clone()).collect::<Vec<_>>() {
            if let Some(entry) = self.set.entry_mut(&id) {
                entry.state = State::Waiting(Why::Turn);
            }
        }
    }

    fn is_ready(&self, op: &Operation, state: State, until_ms: u64, is_covered: bool) -> bool {
        let set = &*self.set;
        if !set.done.precedes(&op.id) {
            return false;
        }
        if self.is_forgone(&op.id) {
            return true;
        }
        if !set.done.covers(&op.after) {
            return false;
        }
        if state == State::Waiting(Why::Quarantined) {
            return op.time.millis <= self.now_ms() + self.context.tuning.ahead_max_ms
                || self.is_in_line(&op.id.author.site);
        }
        let is_spent = state == State::Waiting(Why::SPENT);
        is_covered || !is_spent && until_ms <= self.now_ms() && self.needs_are_met(&op.needs)
    }

    pub(super) fn needs_are_met(&self, needs: &[Need]) -> bool {
        needs
            .iter()
            .all(|need| match self.context.rules.presence(&need.set) {
                Presence::Uninvolved | Presence::Gone => true,
                Presence::Pending => need.gone,
                Presence::Here => !need.gone,
            })
    }

    fn replay(&mut self, id: &OpId, is_covered: bool) {
        let ahead_max_ms = self.context.tuning.ahead_max_ms;
        let now_ms = self.now_ms();
        let Some(entry) = self.set.entry_mut(id) else {
            return;
        };
        if entry.state == State::Waiting(Why::Quarantined) {
            entry.state = State::Waiting(Why::Turn);
            let time = entry.op.time;
            // It has just been found to be near enough.
            let _ = self.site.clock.witness(time, now_ms, ahead_max_ms);
            return;
        }
        let redo = entry.redo;
        let op = entry.op.clone();
        match &op.verb {
            _ if !redo && self.is_forgone(id) => self.conclude(id, Outcome::Lost),
            verb if !verb.is_for_application() => self.note(id),
            Verb::Delete if self.set.local.is_none() => self.conclude(id, Outcome::Executed),
            // What it covers goes without it: the replica stays, of what it had not seen.
            Verb::Delete if self.set.survives(&op) => self.conclude(id, Outcome::Executed),
            Verb::Delete => self.start(Work::Replay { id: id.clone() }),
            _ if is_covered => self.superseded(&op),
            _ if self.set.is_born_again(&op) => self.conclude(id, Outcome::Covered),
            Verb::Create(_) if self.set.local.is_none() => self.start(Work::Replay { id: id.clone() }),
            Verb::Create(_) if self.is_claimed() => self.conclude(id, Outcome::Covered),
            _ if self.set.local.is_none() => self.conclude(id, Outcome::NoReplica),
            _ if self.set.twin(&op).is_some_and(Entry::has_executed) => self.conclude(id, Outcome::Covered),
            _ if self.is_in_heritage(&op) => self.conclude(id, Outcome::Executed),
            _ if redo => self.start(Work::Replay { id: id.clone() }),
            _ if !op.after.covers(&self.set.pruned_writes) => self.too_late(&op),
            _ => match self.place(&op) {
                Fit::Covered => self.conclude(id, Outcome::Covered),
                Fit::Impossible => self.too_late(&op),
                Fit::Before(followers) => {
                    for follower in followers {
                        if let Some(entry) = self.set.entry_mut(&follower) {
                            entry.redo = true;
                        }
                    }
                    self.start(Work::Replay { id: id.clone() });
                }
            },
        }
    }

    /// Whether the replica is there without any create: an operator, or an earlier life of the store, has made it.
    fn is_claimed(&self) -> bool {
        self.set.creates.is_empty() && self.set.deleted.is_none()
    }

    /// A delete leaves nothing of it.
    fn superseded(&mut self, op: &Operation) {
        let is_delete = |entry: &&Entry| matches!(entry.op.verb, Verb::Delete);
        let was_seen = {
            let mut deletes = self.set.log.values().filter(is_delete);
            deletes.any(|delete| delete.op.after.includes(&op.id))
        };
        let is_kept = self.set.conflicts.contains_key(&op.id);
        // The delete may no longer be kept, or have seen only another number of its create: the two were never compared.
        if !op.after.covers(&self.set.pruned_writes) || !was_seen && !is_kept {
            self.conflict(op.clone(), Cause::TooLate);
        }
        self.conclude(&op.id, Outcome::Superseded);
        let was_doubted = self.set.entry(&op.id).is_some_and(|entry| entry.doubted);
        if was_doubted && self.set.deleted.is_none() && self.set.is_covered(op) {
            // Its delete has executed before it, and has left a create under what it may have done.
            self.restore_survivors();
        }
    }

    /// Where an operation stands among those that have executed already and come later in the order.
    fn place(&self, op: &Operation) -> Fit {
        let rank = op.rank();
        let later = || {
            self.set
                .log
                .range(&rank..)
                .filter(|entry| entry.op.id != op.id && entry.has_executed())
                // What deletes have covered has left no trace, and they have none of their own.
                .filter(|entry| !matches!(entry.op.verb, Verb::Delete) && !self.set.is_covered(&entry.op))
        };
        if later().any(|entry| relation(op, &entry.op) == Relation::Whole) {
            return Fit::Covered;
        }
        let mut again = vec![op];
        for entry in later() {
            let depends = again
                .iter()
                .any(|earlier| relation(earlier, &entry.op) != Relation::Independent);
            if depends && !entry.op.verb.may_follow_again() {
                return Fit::Impossible;
            }
            if depends {
                again.push(&entry.op);
            }
        }
        Fit::Before(again[1..].iter().map(|op| op.id.clone()).collect())
    }

    /// What has executed here and must execute again after an operation that takes its place before it.
    /// None when it has no place, or needs none.
    pub(super) fn followers(&self, op: &Operation) -> Option<Vec<OpId>> {
        match self.place(op) {
            Fit::Before(followers) => Some(followers),
            Fit::Covered | Fit::Impossible => None,
        }
    }

    fn begin_install(&mut self) -> bool {
        let now_ms = self.now_ms();
        let Some(install) = &self.set.install else {
            return false;
        };
        if install.until_ms > now_ms {
            return false;
        }
        let me = self.set.members.get(self.here());
        let leaves = me.is_some_and(|me| me.leaving.is_some());
        if self.set.local.is_none() && (leaves || install.state.is_none()) {
            // There is nothing to delete, or nothing to be made any more.
            self.install_without_replica();
        } else {
            self.start(Work::Install);
        }
        true
    }

    /// A site that leaves deletes its replica, once those that stay have executed all that it has.
    fn begin_vacate(&mut self) -> bool {
        let set = &*self.set;
        let leave = set.members.get(self.here()).and_then(|me| me.leaving.clone());
        let Some(leave) = leave else {
            return false;
        };
        let stays = |site: &&SiteName| {
            set.members
                .get(*site)
                .is_some_and(|other| other.leaving.is_none())
        };
        let others = set.others(self.here());
        let has_executed = |site| set.peers.get(site).is_some_and(|peer| peer.done.includes(&leave));
        let has_replica = |site| {
            let peer = set.peers.get(site);
            peer.is_some_and(|peer| peer.local.is_some() && peer.degraded.is_none())
        };
        let mut staying = others.iter().filter(stays);
        // The last good replica is not deleted: all may have been told to leave at the same time, or those that
        // stay may have refused something. Then they are repaired first. That a replica is good is its site's own
        // word, which counts once it has read it since the last operation. This one, if it is good, goes only when the
        // two were found to be equal.
        let is_bad = set.degraded.is_some();
        let is_as_good =
            |site| has_replica(site) && (is_bad && self.was_read_at(site) || self.is_verified_by(site));
        let is_as_good = staying.clone().any(is_as_good);
        if set.local.is_none() || set.install.is_some() || !staying.all(has_executed) {
            return false;
        }
        if !is_as_good {
            // What was found to be equal was so before the last operation.
            self.set.want_comparison();
            return false;
        }
        let token = set.entry(&leave).map_or(set.birth, |entry| entry.op.token);
        self.start(Work::Vacate { token });
        true
    }

    /// Hands the job to the application.
    pub(super) fn run(&mut self) {
        let Some(job) = &self.set.job else {
            return;
        };
        let ticket = job.ticket;
        let conditions = match &job.work {
            Work::Accept { conditions, .. } => conditions.clone(),
            _ => None,
        };
        let origin = match &job.work {
            Work::Accept { op, .. } => Some(op.id.author.site.clone()),
            Work::Replay { id } => Some(id.author.site.clone()),
            _ => None,
        };
        let source = match (&job.work, &self.set.install) {
            (Work::Install, Some(install)) => install.source.clone(),
            _ => None,
        };
        let Some((token, recognise, form, credential)) = self.order(&job.work) else {
            // There is nothing here to do it to.
            if let Work::Accept { op, answered, .. } = job.work.clone() {
                let answer = crate::Answer::NotHere(crate::Reason::NoReplica);
                return self.dropped(&op, answered, answer);
            }
            self.set.job = None;
            return;
        };
        if let Some(form) = form {
            let renewal = self.renewal(&job.work, recognise, &form);
            // Whatever becomes of it, what was read before says nothing any more.
            self.set.digest = None;
            self.effects.push(Effect::Execute(Execution {
                ticket,
                token,
                recognise,
                renewal,
                form,
                conditions,
                credential,
                origin,
                source,
            }));
        } else if let Some(local) = self.set.local.clone() {
            self.effects.push(Effect::Read { ticket, local });
        } else {
            self.set.job = None;
        }
    }

    /// What comes from elsewhere and is not in the state that this replica was set to has to take effect, though an earlier
    /// life of this store may have executed it under its key before.
    fn renewal(&self, work: &Work, recognise: Recognise, form: &Form) -> Option<Token> {
        let is_replay = matches!((work, form), (Work::Replay { .. }, Form::Repeat { .. }));
        self.set
            .renewal
            .filter(|_| is_replay && recognise == Recognise::Key)
    }

    /// What a piece of work asks of the application; no form means a read.
    fn order(&self, work: &Work) -> Option<(Token, Recognise, Option<Form>, Option<Secret>)> {
        let local = self.set.local.as_ref();
        Some(match work {
            Work::Accept {
                op,
                credential,
                remakes,
                ..
            } => {
                // Unless an operator wants it, the application decides what becomes of a create whose name it has.
                let onto = local.filter(|_| *remakes || !matches!(op.verb, Verb::Create(_)));
                (
                    op.token,
                    recognise(op, onto),
                    Some(form(op, onto)?),
                    credential.clone(),
                )
            }
            Work::Replay { id } => {
                let entry = self.set.entry(id)?;
                let op = &entry.op;
                (
                    op.token,
                    recognise(op, local),
                    Some(form(op, local)?),
                    entry.credential.clone(),
                )
            }
            Work::Install => {
                let install = self.set.install.as_ref()?;
                // Only the create is to be recognised; an overwrite has to take effect each time.
                let (form, recognise) = match (install.state.clone(), local.cloned()) {
                    (Some(state), Some(local)) => (Form::Overwrite { state, local }, Recognise::Nothing),
                    (Some(state), None) => (Form::CreateFrom { state }, install.recognise),
                    (None, local) => {
                        let (request, local) = (None, local?);
                        (Form::Delete { request, local }, Recognise::Nothing)
                    }
                };
                (install.token, recognise, Some(form), install.credential.clone())
            }
            Work::Vacate { token } => {
                let form = Form::Delete {
                    request: None,
                    local: local?.clone(),
                };
                let me = self.set.members.get(self.here());
                let leave = me.and_then(|me| self.set.entry(me.leaving.as_ref()?));
                let credential = leave.and_then(|leave| leave.credential.clone());
                (*token, Recognise::Nothing, Some(form), credential)
            }
            Work::Read => (Token(0), Recognise::Nothing, None, None),
        })
    }

    /// An execution without a result, once the application can no longer be working on it.
    fn resolve_doubt(&mut self) {
        let now_ms = self.now_ms();
        let Some(job) = &self.set.job else {
            return;
        };
        let is_due = matches!(job.phase, Phase::Doubt { until_ms } if until_ms <= now_ms);
        if !is_due || self.has_overslept() || self.waits_for_word() {
            return;
        }
        let Some(job) = &mut self.set.job else {
            return;
        };
        job.overslept = false;
        job.ticket = self.site.ticket();
        let ticket = job.ticket;
        let work = job.work.clone();
        if let Some(token) = self.marker(&work) {
            self.set_phase(Phase::Looking);
            self.effects.push(Effect::Look { ticket, token });
        } else if self.is_spent() {
            self.stop_sending();
        } else {
            self.set_phase(Phase::Running);
            self.run();
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        if let Some(job) = &mut self.set.job {
            job.phase = phase;
        }
    }

    /// The marker by which the work of a create is recognised, where there is one.
    pub(super) fn marker(&self, work: &Work) -> Option<Token> {
        let (token, recognise, form, _) = self.order(work)?;
        let is_create = matches!(form, Some(Form::Create { .. } | Form::CreateFrom { .. }));
        (is_create && recognise == Recognise::Marker).then_some(token)
    }

    /// Whether work may be done once more whatever became of the first time.
    pub(super) fn is_repeatable(&self, work: &Work) -> bool {
        let form = self.order(work).and_then(|(_, _, form, _)| form);
        match form {
            Some(Form::Create { .. } | Form::CreateFrom { .. }) | None => false,
            Some(Form::Repeat { .. }) => match work {
                Work::Accept { op, .. } => op.verb.is_idempotent(),
                Work::Replay { id } => self
                    .set
                    .entry(id)
                    .is_some_and(|entry| entry.op.verb.is_idempotent()),
                _ => false,
            },
            Some(Form::Remake { .. } | Form::Overwrite { .. } | Form::Delete { .. }) => true,
        }
    }

    /// Whether work without a result can be resolved without an operator.
    pub(super) fn can_resolve(&self, work: &Work) -> bool {
        let Some((_, recognise, form, _)) = self.order(work) else {
            return true;
        };
        match form {
            Some(Form::Create { .. } | Form::CreateFrom { .. }) => recognise != Recognise::Nothing,
            Some(Form::Repeat { .. }) => {
                let op = match work {
                    Work::Accept { op, .. } => Some(&**op),
                    Work::Replay { id } => self.set.entry(id).map(|entry| &entry.op),
                    _ => None,
                };
                op.is_some_and(|op| op.verb.is_idempotent() || op.recognise == Recognise::Key)
            }
            _ => true,
        }
    }

    /// What waits behind an execution that only an operator can settle has certainly not executed: another
    /// site may take it. What was promised stays, because nobody is left to take it there.
    fn refuse_behind_doubt(&mut self) {
        if self.set.in_doubt().is_none() {
            return;
        }
        let (refused, kept) = std::mem::take(&mut self.set.queue)
            .into_iter()
            .partition::<Vec<_>, _>(|draft| draft.verb.is_for_application() && !draft.promised);
        self.set.queue = kept.into();
        for draft in refused {
            let answer = crate::Answer::NotHere(crate::Reason::InDoubt);
            self.answer(draft.token, answer);
        }
    }

    /// Nothing that waits can be accepted any more.
    pub(super) fn refuse_queue(&mut self) {
        for draft in std::mem::take(&mut self.set.queue) {
            self.answer(draft.token, crate::Answer::NotHere(crate::Reason::NotMember));
        }
    }
}

/// What is harmless to repeat must not be recognised: to restore the order it has to take effect again.
fn recognise(op: &Operation, local: Option<&LocalId>) -> Recognise {
    let remakes = matches!(op.verb, Verb::Create(_)) && local.is_some();
    if op.verb.is_idempotent() || remakes {
        Recognise::Nothing
    } else {
        op.recognise
    }
}

fn form(op: &Operation, local: Option<&LocalId>) -> Option<Form> {
    Some(match &op.verb {
        Verb::Create(_) => match local.cloned() {
            Some(local) => Form::Remake {
                request: op.request.clone(),
                local,
            },
            None => Form::Create {
                request: op.request.clone(),
            },
        },
        Verb::Delete => Form::Delete {
            request: Some(op.request.clone()),
            local: local?.clone(),
        },
        _ => Form::Repeat {
            request: op.request.clone(),
            local: local?.clone(),
        },
    })
}
