//! Writes to strong sets. The sites of such a set decide together what is written to it; the engine keeps what they have decided.
//!
//! The set's group orders writes, and hands each to one site, its leader's. There the application decides, but what it says is not
//! the end: until the group has noted it, another leader may have the write decided at its own site.
//!
//! ```text
//! paris, the leader's site, executes w1 (`Proposed`), and is cut off before the group has noted that
//! rome is the next leader's: it executes w1 too, the group notes that as rome's operation r1
//! paris hears of r1: its application has done the same already, so r1 takes the place of what it proposed
//! had rome's application refused w1: paris has something that nobody else has, and is set to another one's state
//! ```
//!
//! So nothing that was proposed is an operation, or is told to anyone, before the decision is here. It holds up its own set alone:
//! the job of a set is taken until then. What is decided comes in the same order to all sites, and each comes after all before
//! it, so that operations of a strong set are never concurrent.

use super::{Step, step};
use crate::{
    Answer, Carried, Context, Decision, Draft, Effect, Event, Job, MetaId, Operation, Outcome, Phase,
    Proposal, Secret, Set, Site, Standing, Token, Verb, Work,
};

/// What the group of a strong set has decided reaches a site that has no such set yet. Its create begins the set; anything
/// else is brought by the other members, with what comes before it.
pub fn decided(
    site: &mut Site,
    meta: &MetaId,
    decision: Decision,
    context: &Context<'_>,
) -> (Option<Set>, Vec<Effect>) {
    let birth = match &decision {
        Decision::Executed(carried) => match &carried.op.verb {
            Verb::Create(birth) if birth.sites.contains(site.name()) => Some(birth.clone()),
            _ => None,
        },
        Decision::Refused { .. } => None,
    };
    let Some(birth) = birth else {
        return (None, Vec::new());
    };
    let mut set = Set::born(meta, &birth);
    let effects = step(site, &mut set, Event::Decided(decision), context);
    let has_begun = !set.held.is_empty();
    (has_begun.then_some(set), effects)
}

impl Step<'_> {
    /// Whether it is for the group of the set to say what becomes of a write.
    pub(super) fn is_for_group(&self, verb: &Verb) -> bool {
        !self.set.record.consistency.is_eventual() && verb.is_for_application()
    }

    /// Whether something that was decided has yet to execute here: what is written next has to come after it.
    pub(super) fn lags_behind_group(&self, verb: &Verb) -> bool {
        self.is_for_group(verb) && !self.set.has_executed_all()
    }

    /// Takes notice of a write that is here already: a leader asks again after a restart, and so does the next one.
    /// True when there is nothing to queue.
    pub(super) fn is_under_way(&mut self, draft: &Draft) -> bool {
        if !self.is_for_group(&draft.verb) {
            return false;
        }
        let token = draft.token;
        let known = self.set.log.values().find(|entry| entry.op.token == token);
        if let Some(operation) = known.map(|entry| entry.op.id.clone()) {
            let status = 200;
            self.answer(token, Answer::Accepted { operation, status });
            return true;
        }
        if self.proposed(token) {
            self.propose_again();
            return true;
        }
        self.accepts(token) || self.set.queue.iter().any(|queued| queued.token == token)
    }

    /// The application has executed a write, or refused it: the group is to note that.
    pub(super) fn propose(&mut self, executed: bool, status: u16) {
        let next = self.next_id();
        let age = self.site.next_age();
        let Some(job) = &mut self.set.job else {
            return;
        };
        job.phase = Phase::Proposed { executed, status };
        if let (Work::Accept { op, .. }, Some(next)) = (&mut job.work, next) {
            // Everything decided before has executed here, and nothing has come since.
            op.id = next;
            op.age = age;
            op.after = self.set.done.clone();
        }
        match job.decision.take() {
            Some(decision) => self.apply(*decision),
            None => self.propose_again(),
        }
    }

    /// Says once more what the application made of the write, if it has ended and is not decided.
    pub(super) fn propose_again(&mut self) {
        let Some(Job {
            work: Work::Accept { op, credential, .. },
            phase: Phase::Proposed { executed, status },
            ..
        }) = &self.set.job
        else {
            return;
        };
        let (token, status) = (op.token, *status);
        let proposal = if *executed {
            let carried = Carried {
                op: (**op).clone(),
                credential: credential.clone(),
            };
            Proposal::Executed {
                carried: Box::new(carried),
                status,
            }
        } else {
            Proposal::Refused { status }
        };
        self.effects.push(Effect::Propose { token, proposal });
    }

    /// The group has decided a write. All sites hear it, each perhaps several times.
    pub(super) fn decided(&mut self, decision: Decision) {
        if self.set.standing != Standing::Member {
            return;
        }
        let token = decision.token();
        if let Decision::Executed(carried) = &decision {
            self.set.decided.raise(&carried.op.id);
        }
        if self.proposed(token) {
            return self.apply(decision);
        }
        if self.accepts(token) {
            // Only what becomes of it here tells what has to be done about the difference.
            if let Some(job) = &mut self.set.job {
                job.decision = Some(Box::new(decision));
            }
            return;
        }
        let was_queued = self.set.queue.iter().any(|draft| draft.token == token);
        self.set.queue.retain(|draft| draft.token != token);
        match decision {
            Decision::Executed(carried) => self.take_decided(*carried),
            Decision::Refused { status, .. } if was_queued => {
                self.answer(token, Answer::Refused { status });
            }
            Decision::Refused { .. } => {}
        }
        self.forget_what_came_to_nothing();
    }

    /// A decision meets what this site has made of the same write.
    fn apply(&mut self, decision: Decision) {
        let Some(job) = self.set.job.take() else {
            return;
        };
        let tries = job.tries;
        let (Work::Accept { op, credential, .. }, Phase::Proposed { executed, status }) =
            (job.work, job.phase)
        else {
            return;
        };
        match decision {
            Decision::Executed(carried) if executed => self.same_as_decided(*carried, credential, status),
            Decision::Executed(carried) => self.take_decided(*carried),
            Decision::Refused { status, .. } if !executed && tries == 0 => {
                self.dropped(&op, false, Answer::Refused { status });
            }
            // An attempt before the one that was refused may have executed.
            Decision::Refused { status, .. } => self.set_back(&op, status),
        }
    }

    /// What was decided has executed here already, as this very operation or as another site's.
    fn same_as_decided(&mut self, carried: Carried, credential: Option<Secret>, status: u16) {
        let Carried { op, .. } = carried;
        let (id, token) = (op.id.clone(), op.token);
        if self.set.held.precedes(&id) {
            self.insert(op, credential);
        }
        // Another member may have sent it before the decision was heard: it was not begun, because this one was.
        if self.set.done.precedes(&id) && self.set.held.includes(&id) {
            self.conclude(&id, Outcome::Executed);
        }
        if id.author.site != *self.here() {
            // Another application has executed it too, and that one's word counts.
            self.set.want_comparison();
        }
        let operation = id;
        self.answer(token, Answer::Accepted { operation, status });
    }

    fn take_decided(&mut self, carried: Carried) {
        let id = carried.op.id.clone();
        if !self.set.held.precedes(&id) {
            // Another member has sent it by now. Or this site lacks what comes before it: that is sent first, and then this; until
            // then the site knows that it is behind (`Set::decided`).
            return;
        }
        self.insert(carried.op, carried.credential);
    }

    /// This site's application has executed what the group has refused. Nobody was told that it had.
    fn set_back(&mut self, op: &Operation, status: u16) {
        self.answer(op.token, Answer::Refused { status });
        if matches!(op.verb, Verb::Create(_)) && self.set.held.is_empty() {
            // There is no such resource anywhere else: what was made here goes.
            if self.set.local.is_some() {
                self.start(Work::Vacate { token: op.token });
            }
            return self.forget_what_came_to_nothing();
        }
        let said = "another site of the set has refused what was executed here".to_owned();
        self.degrade(None, status, Some(said));
    }

    /// An operator knows that what was executed here was never decided, and will not be. True if something waited for that.
    pub(super) fn give_up_undecided(&mut self) -> bool {
        let is_proposed = |job: &mut Job| matches!(job.phase, Phase::Proposed { .. });
        let Some(job) = self.set.job.take_if(is_proposed) else {
            return false;
        };
        if let Work::Accept { op, .. } = job.work {
            let status = 409;
            self.set_back(&op, status);
        }
        true
    }

    /// A set whose only create the group has refused leaves nothing, once its replica is gone.
    pub(super) fn forget_what_came_to_nothing(&mut self) {
        let set = &*self.set;
        let is_over = set.job.is_none() && set.queue.is_empty() && set.local.is_none();
        if !set.record.consistency.is_eventual() && set.held.is_empty() && is_over {
            self.set.standing = Standing::Left;
            self.moved();
            self.effects.push(Effect::Forget);
        }
    }

    /// An attempt has ended with the word that nothing has executed, or that nobody can tell what has. True when that is not
    /// for this site alone to say.
    pub(super) fn is_left_to_group(&mut self, op: &Operation, answer: &Answer) -> bool {
        if !self.is_for_group(&op.verb) || !self.accepts(op.token) {
            return false;
        }
        match answer {
            Answer::Refused { status } => self.propose(false, *status),
            // Whatever it did, it counts as refused: the replicas are compared.
            Answer::Unknown { status } => self.propose(false, status.unwrap_or(409)),
            _ => {
                // It certainly did not execute. If it was decided meanwhile, it executes as any other.
                let job = self.set.job.take();
                let Some(decision) = job.and_then(|job| job.decision) else {
                    return false;
                };
                self.decided(*decision);
            }
        }
        true
    }

    /// Whether a write of this token executes here as one that this site accepts.
    pub(super) fn accepts(&self, token: Token) -> bool {
        let work = self.set.job.as_ref().map(|job| &job.work);
        matches!(work, Some(Work::Accept { op, .. }) if op.token == token)
    }

    fn proposed(&self, token: Token) -> bool {
        let phase = self.set.job.as_ref().map(|job| job.phase);
        self.accepts(token) && matches!(phase, Some(Phase::Proposed { .. }))
    }
}
