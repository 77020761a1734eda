//! Requests to the applications, which are slow, fail, or say nothing.

use cheops_replica::{Attempt, Event, Execution, Form, LocalId, MetaId, Recognise, Work};

use super::{Happening, World};
use crate::{Change, Chosen};

impl World {
    /// Decides what becomes of a request.
    pub(super) fn execute(&mut self, at: usize, set: &MetaId, execution: Execution) {
        if !is_repeatable(&execution) {
            (self.watch.attempts)(self, at, &execution);
            self.oracle.open.insert((at, execution.token));
        }
        let life = self.nodes[at].life;
        let slow = self.rng.chance(100) || self.plan.twists.slow == Some(at);
        self.check_conditions(at, set, &execution);
        let effect_ms = self.now_ms + self.rng.between(1, if slow { 300 } else { 30 });
        let answer_ms = effect_ms + self.rng.between(1, if slow { 300 } else { 30 });
        let refusal = self.refusal(at, set, &execution);
        let mut instead = None;
        let mut reaches = true;
        if let Form::Create { request } | Form::Remake { request, .. } | Form::Repeat { request, .. } =
            &execution.form
        {
            self.bring_accepted(at, set, &request.body);
            if !self.has_payload(at, &request.body) {
                return self.answer(at, life, set, &execution, Attempt::NotSent, answer_ms);
            }
        }
        if !self.healed {
            if let Some(status) = refusal {
                (instead, reaches) = (Some(answered(status)), false);
            } else if self.rng.chance(self.plan.app_fails) {
                let failure = self.rng.index(5);
                reaches = failure == 3;
                instead = Some(match failure {
                    0 => Attempt::NotSent,
                    1 => answered(503),
                    2 => answered(429),
                    _ => answered(500),
                });
            } else if self.rng.chance(self.plan.app_silent) {
                reaches = self.rng.chance(500);
                instead = Some(Attempt::Unknown);
            }
        }
        if reaches {
            let happening = Happening::Effect {
                node: at,
                life,
                set: set.clone(),
                execution: Box::new(execution),
                instead,
                answer_ms,
            };
            self.at(effect_ms, happening);
        } else if let Some(attempt) = instead {
            self.answer(at, life, set, &execution, attempt, answer_ms);
        }
    }

    /// A write that demands something is never tried without that, also not after a crash.
    fn check_conditions(&mut self, at: usize, set: &MetaId, execution: &Execution) {
        let job = self.nodes[at].set(set).and_then(|set| set.job());
        let is_accepting = job.is_some_and(|job| matches!(job.work, Work::Accept { .. }));
        let is_conditional = self.oracle.conditional.contains(&execution.token);
        if is_conditional && is_accepting != execution.conditions.is_some() {
            let site = &self.nodes[at].name;
            let what = format!(
                "conditions: {:?} of {set} is tried at {site} with {:?}",
                execution.token, execution.conditions
            );
            self.oracle.violation(what);
        }
    }

    /// A status with which this application refuses an operation.
    fn refusal(&mut self, at: usize, set: &MetaId, execution: &Execution) -> Option<u16> {
        let accepting = matches!(
            self.nodes[at]
                .disk
                .sets
                .get(set)
                .and_then(|set| set.job())
                .map(|job| &job.work),
            Some(cheops_replica::Work::Accept { .. })
        );
        if matches!(
            execution.form,
            Form::Overwrite { .. } | Form::CreateFrom { .. } | Form::Delete { .. }
        ) {
            return None;
        }
        let odd = self.plan.twists.odd && self.rng.chance(60);
        if odd && !matches!(execution.form, Form::Remake { .. }) {
            let is_create = matches!(execution.form, Form::Create { .. });
            return Some(if is_create { 409 } else { 307 });
        }
        if accepting {
            return self.rng.chance(50).then_some(422);
        }
        if self.rng.chance(self.plan.refuses) {
            return Some(422);
        }
        if self.rng.chance(self.plan.locks) {
            let status = *self.rng.pick(&[401, 403, 403]);
            return Some(status);
        }
        None
    }

    pub(super) fn take_effect(
        &mut self,
        at: usize,
        life: u32,
        set: &MetaId,
        execution: &Execution,
        instead: Option<Attempt>,
        answer_ms: u64,
    ) {
        let part = self.part_in(at, set, execution);
        let chosen = Chosen {
            name: set.as_str(),
            is_named: self.plan.twists.named,
            is_odd: self.plan.twists.odd,
        };
        let own = self.nodes[at].app.execute(at, chosen, execution, part);
        (self.watch.executes)(self, at, execution.token);
        self.answer(at, life, set, execution, instead.unwrap_or(own), answer_ms);
    }

    fn answer(
        &mut self,
        at: usize,
        life: u32,
        set: &MetaId,
        execution: &Execution,
        attempt: Attempt,
        answer_ms: u64,
    ) {
        let certain = match attempt {
            Attempt::Answered { status, .. } => !matches!(status, 500 | 502 | 504),
            Attempt::NotSent => true,
            Attempt::Unknown => false,
        };
        let event = Box::new(Event::Executed {
            ticket: execution.ticket,
            attempt,
        });
        let happening = Happening::Answer {
            node: at,
            life,
            set: set.clone(),
            event,
            ends: certain.then_some(execution.token),
        };
        self.at(answer_ms, happening);
    }

    /// What an agent puts in place of a count: the part that the operation says, or of the last division where another
    /// replica's state is taken.
    fn part_in(&self, at: usize, set: &MetaId, execution: &Execution) -> Option<u64> {
        match &execution.form {
            Form::Create { request } | Form::Remake { request, .. } | Form::Repeat { request, .. } => {
                let share = request.shares.first()?;
                Some(share.part_of(&self.nodes[at].name))
            }
            Form::CreateFrom { .. } | Form::Overwrite { .. } => self.part_of(at, set),
            Form::Delete { .. } => None,
        }
    }

    /// This site's part, as far as its set knows.
    fn part_of(&self, at: usize, set: &MetaId) -> Option<u64> {
        let node = &self.nodes[at];
        let share = node.set(set)?.shares().first()?;
        Some(share.part_of(&node.name))
    }

    pub(super) fn read(&mut self, at: usize, set: &MetaId, ticket: u64, local: &LocalId) {
        let failed = !self.healed && self.rng.chance(self.plan.app_fails);
        let part = self.part_of(at, set);
        let state = if failed {
            None
        } else {
            self.nodes[at].app.read(local, part)
        };
        let event = match state {
            None if !failed => Event::Missing { ticket },
            state => Event::Read {
                ticket,
                state: state.filter(|_| !failed),
            },
        };
        let happening = Happening::Answer {
            node: at,
            life: self.nodes[at].life,
            set: set.clone(),
            event: Box::new(event),
            ends: None,
        };
        let delay_ms = self.rng.between(1, 20);
        self.at(self.now_ms + delay_ms, happening);
    }
}

fn answered(status: u16) -> Attempt {
    Attempt::Answered {
        status,
        local: None,
        said: None,
    }
}

/// Whether a request may be made twice without an operator's word.
fn is_repeatable(execution: &Execution) -> bool {
    match &execution.form {
        Form::Create { .. } | Form::CreateFrom { .. } => execution.recognise != Recognise::Nothing,
        Form::Repeat { request, .. } => {
            execution.recognise == Recognise::Key || Change::of(&request.body).is_idempotent()
        }
        Form::Remake { .. } | Form::Overwrite { .. } | Form::Delete { .. } => true,
    }
}
