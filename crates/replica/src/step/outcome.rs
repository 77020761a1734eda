//! What became of an execution.

use std::borrow::Cow;

use super::Step;
use crate::{
    Answer, Attempt, Degraded, Found, Job, LocalId, OpId, Operation, Outcome, Phase, Reading, Reason, Recast,
    Recognise, Secret, State, Verb, Why, Work,
};

impl Step<'_> {
    /// An attempt has ended. Attempts that no longer count are ignored.
    pub(super) fn executed(&mut self, ticket: u64, attempt: Attempt) {
        let Some(job) = self.set.job.clone() else {
            return;
        };
        if job.ticket != ticket || job.phase != Phase::Running {
            return;
        }
        if attempt == Attempt::Unknown {
            self.count_silence();
        }
        match job.work.clone() {
            Work::Accept {
                op,
                credential,
                answered,
                ..
            } => self.accept_ended(&job, *op, credential, answered, attempt),
            Work::Replay { id } => self.replay_ended(&job, &id, attempt),
            Work::Install => self.install_ended(attempt),
            Work::Vacate { .. } => self.vacate_ended(&attempt),
            Work::Read => {}
        }
    }

    /// An attempt has ended with its connection. What is harmless to repeat need not wait as long as it would for an
    /// application that is silent; what a create made is looked for when the application must be done with it.
    pub(super) fn broken(&mut self, ticket: u64, settle_ms: u64) {
        self.executed(ticket, Attempt::Unknown);
        let soon_ms = self.now_ms() + settle_ms;
        let job = self.set.job.as_ref().filter(|job| job.ticket == ticket);
        if let Some(Job {
            phase: Phase::Doubt { until_ms },
            work,
            ..
        }) = job
            && self.is_repeatable(work)
        {
            let until_ms = soon_ms.min(*until_ms);
            self.set_phase(Phase::Doubt { until_ms });
        }
    }

    /// An accepted write turns out to be something else than its caller said. From here on it is repeated, shipped
    /// and compared as that; what it demanded of the application has been met.
    pub(super) fn recast(&mut self, ticket: u64, recast: Recast) {
        if let Some(job) = &mut self.set.job
            && (job.ticket, job.phase) == (ticket, Phase::Running)
            && let Work::Accept { op, conditions, .. } = &mut job.work
        {
            op.recast(recast);
            *conditions = None;
        }
    }

    /// A create that sets the replica that is there is answered as a replace is.
    fn as_executed<'o>(&self, op: &'o Operation) -> Cow<'o, Operation> {
        if !(matches!(op.verb, Verb::Create(_)) && self.set.local.is_some()) {
            return Cow::Borrowed(op);
        }
        Cow::Owned(Operation {
            verb: Verb::Replace,
            ..op.clone()
        })
    }

    fn reading(&self, op: &Operation, status: u16) -> Reading {
        self.context.rules.reading(op, status)
    }

    fn accept_ended(
        &mut self,
        job: &Job,
        op: Operation,
        credential: Option<Secret>,
        answered: bool,
        attempt: Attempt,
    ) {
        // After an attempt of unknown end, a refusal does not say that nothing has happened.
        let was_in_doubt = job.tries > 0;
        let is_conditional = matches!(
            job.work,
            Work::Accept {
                conditions: Some(_),
                ..
            }
        );
        let is_promised = matches!(job.work, Work::Accept { promised: true, .. });
        let did_nothing = matches!(attempt, Attempt::NotSent | Attempt::Answered { status: 503, .. });
        if is_promised && did_nothing && !was_in_doubt {
            return self.put_back(job.clone());
        }
        self.set.promise_tries = 0;
        match attempt {
            Attempt::Answered { status, .. } if self.may_be_own_work(job, &op, status) => {
                self.confirm(status);
            }
            Attempt::Answered { status, local, .. } => match self.reading(&op, status) {
                Reading::Done => {
                    self.arrived(&op, local);
                    if self.is_for_group(&op.verb) {
                        return self.propose(true, status);
                    }
                    self.set.job = None;
                    self.accepted(op, credential, status, answered);
                }
                Reading::Unknown => self.accept_in_doubt(&op, answered, Some(status)),
                // A condition that does not hold now will not hold later: to ask again would never end.
                Reading::Retry | Reading::NeedsCredentials
                    if was_in_doubt && !(is_conditional && matches!(status, 409 | 412)) =>
                {
                    self.accept_in_doubt(&op, answered, Some(status));
                }
                _ if was_in_doubt && matches!(op.verb, Verb::Create(_)) => self.set_phase(Phase::Stuck),
                _ => {
                    // Either the first attempt executed, so that its own condition no longer holds, or it was
                    // refused both times. Nobody was told that it had executed, so it is no operation; the
                    // comparison finds what it may have left here, and makes the replicas equal.
                    if was_in_doubt || status == 404 {
                        self.set.want_comparison();
                    }
                    let answer = if was_in_doubt {
                        let status = Some(status);
                        Answer::Unknown { status }
                    } else {
                        Answer::Refused { status }
                    };
                    self.dropped(&op, answered, answer);
                }
            },
            Attempt::NotSent if !was_in_doubt => {
                self.dropped(&op, answered, Answer::NotHere(Reason::Unreachable));
            }
            Attempt::NotSent | Attempt::Unknown => self.accept_in_doubt(&op, answered, None),
        }
    }

    fn accept_in_doubt(&mut self, op: &Operation, was_answered: bool, status: Option<u16>) {
        let is_create = matches!(op.verb, Verb::Create(_));
        if is_create && self.set.local.is_some() {
            // The name is taken, by the replica: it has hardly executed. An application that answers 500 to a name
            // that is taken would do so for ever, and all else would wait for it.
            self.set.want_comparison();
            return self.dropped(op, was_answered, Answer::Unknown { status });
        }
        if let Some(Job {
            work:
                Work::Accept {
                    answered,
                    promised: false,
                    ..
                },
            ..
        }) = &mut self.set.job
        {
            *answered = true;
            if !was_answered {
                self.answer(op.token, Answer::Unknown { status });
            }
        }
        // Who was promised an end hears it when there is one.
        self.doubt();
    }

    fn replay_ended(&mut self, job: &Job, id: &OpId, attempt: Attempt) {
        let Some(op) = self.set.entry(id).map(|entry| entry.op.clone()) else {
            self.set.job = None;
            return;
        };
        let is_create = matches!(op.verb, Verb::Create(_));
        // A create that sets the replica that is there is harmless to repeat.
        let doubtful_create = job.tries > 0 && is_create && self.set.local.is_none();
        let (status, local, said) = match attempt {
            Attempt::Answered { status, local, said } => (status, local, said),
            Attempt::NotSent if doubtful_create => return self.doubt(),
            Attempt::NotSent => return self.postpone(id, Why::Retry { status: None }, None),
            Attempt::Unknown => return self.doubt(),
        };
        if let Some(job) = &mut self.set.job {
            job.status = Some(status);
        }
        let is_vanished = status == 404 && self.set.local.is_some() && !matches!(op.verb, Verb::Delete);
        if is_vanished || self.may_be_own_work(job, &op, status) {
            // What the application said explains the answer, if it is borne out.
            if let Some(entry) = self.set.entry_mut(id) {
                entry.said = said;
            }
            return self.confirm(status);
        }
        match self.reading(&self.as_executed(&op), status) {
            Reading::Done => {
                self.set.job = None;
                if is_create && op.recognise == Recognise::Key && op.id.author.site == *self.here() {
                    // It comes back from the others. The application may remember what it made the first time, and
                    // that may be gone: reading tells.
                    self.set.want_comparison();
                }
                self.arrived(&op, local);
                self.conclude(id, Outcome::Executed);
            }
            // An earlier attempt may have made something: it must not be left behind.
            Reading::Refused if doubtful_create => self.set_phase(Phase::Stuck),
            _ if doubtful_create => self.doubt(),
            Reading::Refused => {
                self.set.job = None;
                self.set.want_comparison();
                self.degrade(Some(id.clone()), status, said);
                self.conclude(id, Outcome::Refused { status });
            }
            Reading::NeedsCredentials => self.postpone(id, Why::NeedsCredentials, said),
            Reading::Blocked => self.postpone(id, Why::Blocked { status }, said),
            Reading::Retry => self.postpone(id, Why::Retry { status: Some(status) }, said),
            Reading::Unknown => self.doubt(),
        }
    }

    /// An execution that certainly did not happen is tried again later; others may go first.
    pub(super) fn postpone(&mut self, id: &OpId, why: Why, said: Option<String>) {
        let tuning = self.context.tuning;
        let now_ms = self.now_ms();
        let was_in_doubt = self.set.job.take().is_some_and(|job| job.tries > 0);
        if let Some(entry) = self.set.entry_mut(id) {
            // This try did nothing; the ones before may have.
            entry.doubted |= was_in_doubt;
            if entry.redo && entry.has_failed() {
                // It is done for the others and holds up what follows: one try, then the repair.
                entry.redo = false;
                return;
            }
            let retry_ms = tuning.retry_ms(entry.tries);
            entry.until_ms = now_ms
                + match why {
                    // What it needs may be a set of its own that nobody here has heard of yet.
                    Why::Blocked { .. } if !entry.op.needs.is_empty() => {
                        retry_ms.min(tuning.blocked_retry_ms)
                    }
                    Why::Blocked { .. } | Why::NeedsCredentials => tuning.blocked_retry_ms,
                    _ => retry_ms,
                };
            entry.tries += 1;
            entry.said = said;
            if !entry.redo {
                entry.state = State::Waiting(why);
            }
        }
    }

    /// The job has no result. It is resolved later, or stays until an operator settles it.
    pub(super) fn doubt(&mut self) {
        let until_ms = self.now_ms() + self.context.tuning.settle_ms;
        let Some(job) = &self.set.job else {
            return;
        };
        let phase = if self.can_resolve(&job.work) {
            Phase::Doubt { until_ms }
        } else {
            Phase::Stuck
        };
        if let Some(job) = &mut self.set.job {
            job.tries += 1;
            job.phase = phase;
        }
    }

    /// A search for the job's marker has ended.
    pub(super) fn looked(&mut self, ticket: u64, found: Found) {
        let Some(job) = &self.set.job else {
            return;
        };
        if job.ticket != ticket || job.phase != Phase::Looking {
            return;
        }
        match found {
            Found::Here(local) => self.has_executed(Some(local)),
            Found::Nowhere if self.is_spent() => self.stop_sending(),
            Found::Nowhere if self.may_meet_another(job) => self.confirm(500),
            Found::Nowhere if matches!(job.work, Work::Replay { .. }) => {
                // It begins anew, if it still has to and may.
                self.set.job = None;
            }
            Found::Nowhere if matches!(job.work, Work::Install) && self.may_be_taken() => self.confirm(500),
            Found::Nowhere => {
                if let Some(job) = &mut self.set.job {
                    job.tries = 0;
                }
                self.set_phase(Phase::Running);
                self.run();
            }
            Found::Unknown => {
                let until_ms = self.now_ms() + self.context.tuning.retry_ms(job.tries);
                self.set_phase(Phase::Doubt { until_ms });
            }
        }
    }

    /// An operator knows what became of the execution in doubt.
    pub(super) fn settle(&mut self, executed: bool, local: Option<LocalId>) {
        if !executed && self.give_up_undecided() {
            return;
        }
        let Some(job) = self.set.job.clone().filter(|job| job.phase == Phase::Stuck) else {
            return;
        };
        if executed {
            return self.has_executed(local);
        }
        match &job.work {
            Work::Accept { op, answered, .. } => {
                self.dropped(op, *answered, Answer::NotHere(Reason::Unreachable));
            }
            Work::Replay { .. } if self.is_spent() => self.stop_sending(),
            _ => self.set.job = None,
        }
    }

    /// The job turns out to have executed.
    pub(super) fn has_executed(&mut self, local: Option<LocalId>) {
        let Some(job) = self.set.job.take() else {
            return;
        };
        // What was found may have been changed since, by whoever found it first.
        self.set.want_comparison();
        if let Work::Accept { op, .. } = &job.work
            && self.is_for_group(&op.verb)
        {
            self.arrived(op, local);
            self.set.job = Some(job);
            return self.propose(true, 200);
        }
        match job.work {
            Work::Accept {
                op,
                credential,
                answered,
                ..
            } => {
                self.arrived(&op, local);
                self.accepted(*op, credential, 200, answered);
            }
            Work::Replay { id } => {
                let op = self.set.entry(&id).map(|entry| entry.op.clone());
                if let Some(op) = op {
                    self.arrived(&op, local);
                }
                self.conclude(&id, Outcome::Executed);
            }
            Work::Install => self.installed(local),
            Work::Vacate { .. } | Work::Read => {}
        }
    }

    /// A create gives this site its replica. Where the answer does not name it, the id is the chosen one.
    fn arrived(&mut self, op: &Operation, local: Option<LocalId>) {
        let is_create = matches!(op.verb, Verb::Create(_));
        if is_create && (self.set.local.is_none() || local.is_some()) {
            self.set.local = Some(local.unwrap_or_else(|| self.chosen_id()));
            self.moved();
        }
    }

    /// The id of a replica that an agent or the client chose.
    pub(super) fn chosen_id(&self) -> LocalId {
        let record = &self.set.record;
        LocalId::new(record.name.as_deref().unwrap_or(record.meta.as_str()))
    }

    pub(super) fn degrade(&mut self, operation: Option<OpId>, status: u16, said: Option<String>) {
        self.set.degraded = Some(Degraded {
            operation,
            status,
            said,
        });
        // Another replica's state may do where the operation did not.
        self.set.want_comparison();
    }

    fn vacate_ended(&mut self, attempt: &Attempt) {
        match attempt {
            Attempt::Answered {
                status: 200..=299 | 404 | 410,
                ..
            } => {
                self.set.job = None;
                self.set.local = None;
                self.moved();
                self.tell_all();
                self.forget_what_came_to_nothing();
            }
            _ => self.doubt(),
        }
    }
}
