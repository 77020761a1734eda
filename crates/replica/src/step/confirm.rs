//! Answers that are believed only when reading bears them out.
//!
//! 409 to a create with an id that an agent chose may be the work of an earlier attempt, or a refusal for another
//! reason, such as a name that is taken. 404 to an update may mean that somebody deleted the replica, or that the
//! update refers to something else that is not there.

use super::Step;
use crate::{
    Answer, Effect, Event, Job, LocalId, OpId, Operation, Outcome, Phase, Recognise, Verb, Why, Work,
};

impl Step<'_> {
    /// Whether an answer may speak of what this very operation has made. Without a doubt it cannot have made anything.
    pub(super) fn may_be_own_work(&self, job: &Job, op: &Operation, status: u16) -> bool {
        // An own operation that comes back from the others was executed in an earlier life of this store.
        let comes_back = matches!(job.work, Work::Replay { .. }) && op.id.author.site == *self.here();
        let is_in_doubt = job.tries > 0 || comes_back;
        let is_chosen = op.recognise == Recognise::ChosenId && matches!(op.verb, Verb::Create(_));
        // Some applications have no better word than 500 for an id that is taken.
        matches!(status, 409 | 500) && is_chosen && is_in_doubt && self.set.local.is_none()
    }

    /// Reads the replica before the answer counts.
    pub(super) fn confirm(&mut self, status: u16) {
        let ticket = self.site.ticket();
        let local = self.set.local.clone().unwrap_or_else(|| self.chosen_id());
        if let Some(job) = &mut self.set.job {
            job.ticket = ticket;
            job.phase = Phase::Confirming { status };
            self.effects.push(Effect::Read { ticket, local });
        }
    }

    /// Takes the answer to [`Step::confirm`]; gives other events back.
    pub(super) fn confirmed(&mut self, event: Event) -> Option<Event> {
        let (ticket, is_there) = match &event {
            Event::Read { ticket, state } => (*ticket, state.is_some().then_some(true)),
            Event::Missing { ticket } => (*ticket, Some(false)),
            _ => return Some(event),
        };
        let job = self.set.job.as_ref().filter(|job| job.ticket == ticket);
        let Some(job) = job.cloned() else {
            return Some(event);
        };
        let Phase::Confirming { status } = job.phase else {
            return Some(event);
        };
        match &job.work {
            Work::Install => self.install_confirmed(status, is_there),
            Work::Replay { id } if self.is_update(id) => self.update_confirmed(id, status, is_there),
            work => self.create_confirmed(work, &job, status, is_there),
        }
        None
    }

    /// Whether the name of a create from elsewhere may be taken, by something that bears no marker of it. An application
    /// that answers 500 to that would do so for ever: reading tells.
    pub(super) fn may_meet_another(&self, job: &Job) -> bool {
        let is_replay = matches!(job.work, Work::Replay { .. });
        is_replay && self.set.record.name.is_some() && job.status == Some(500)
    }

    fn is_create(&self, id: &OpId) -> bool {
        let entry = self.set.entry(id);
        entry.is_some_and(|entry| matches!(entry.op.verb, Verb::Create(_)))
    }

    fn is_update(&self, id: &OpId) -> bool {
        let entry = self.set.entry(id);
        entry.is_some_and(|entry| self.set.local.is_some() || !matches!(entry.op.verb, Verb::Create(_)))
    }

    /// Whether what has the id that this set's replica would have is the replica of another set.
    fn is_anothers(&self) -> bool {
        let rules = self.context.rules;
        rules.is_anothers(&self.set.record, &self.chosen_id())
    }

    fn install_confirmed(&mut self, status: u16, is_there: Option<bool>) {
        let retry_ms = self.now_ms() + self.context.tuning.retry_min_ms;
        self.set.job = None;
        let is_anothers = self.is_anothers();
        match (is_there, &mut self.set.install) {
            // A name alone proves nothing: it is another resource's.
            (Some(true), Some(install)) if install.recognise != Recognise::ChosenId || is_anothers => {
                let said = install.said.take();
                self.install_refused(status, said);
            }
            (Some(true), _) => self.set.local = Some(self.chosen_id()),
            (Some(false), Some(install)) if status == 500 => install.until_ms = retry_ms,
            (Some(false), _) => self.install_refused(status, None),
            (None, Some(install)) => install.until_ms = retry_ms,
            (None, None) => {}
        }
    }

    fn create_confirmed(&mut self, work: &Work, job: &Job, status: u16, is_there: Option<bool>) {
        match (is_there, work) {
            // A name alone proves nothing: it is another resource's.
            (Some(true), Work::Replay { id }) if self.bears_marker(id) || self.is_anothers() => {
                self.refuse_create(id, status);
            }
            (Some(true), Work::Accept { op, answered, .. }) if self.is_anothers() => {
                self.dropped(op, *answered, Answer::Refused { status });
            }
            (Some(true), _) => {
                let local: LocalId = self.chosen_id();
                self.has_executed(Some(local));
            }
            // It is not there, and 500 does not say why. What bears no marker either was not made: it begins anew.
            (Some(false), Work::Replay { id }) if status == 500 && self.bears_marker(id) => {
                self.set.job = None;
            }
            (Some(false), _) if status == 500 => self.doubt(),
            (Some(false), Work::Accept { op, answered, .. }) => {
                self.dropped(op, *answered, Answer::Refused { status });
            }
            (Some(false), Work::Replay { id }) => self.refuse_create(id, status),
            _ => {
                let until_ms = self.now_ms() + self.context.tuning.retry_ms(job.tries);
                self.set_phase(Phase::Doubt { until_ms });
            }
        }
    }

    fn refuse_create(&mut self, id: &OpId, status: u16) {
        self.set.job = None;
        self.degrade(Some(id.clone()), status, self.said_of(id));
        self.conclude(id, Outcome::Refused { status });
    }

    /// Whether what a create makes is recognised by its marker.
    fn bears_marker(&self, id: &OpId) -> bool {
        let entry = self.set.entry(id);
        entry.is_some_and(|entry| entry.op.recognise == Recognise::Marker)
    }

    fn update_confirmed(&mut self, id: &OpId, status: u16, is_there: Option<bool>) {
        if is_there == Some(false) {
            // It is made again from another replica, which has executed this too.
            self.set.job = None;
            self.has_vanished();
            if self.is_create(id) {
                // It makes the replica itself.
                return;
            }
            self.conclude(id, Outcome::NoReplica);
        } else {
            self.postpone(id, Why::Blocked { status }, self.said_of(id));
        }
    }

    fn said_of(&self, id: &OpId) -> Option<String> {
        self.set.entry(id).and_then(|entry| entry.said.clone())
    }
}
