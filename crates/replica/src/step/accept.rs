//! Writes that this site accepts.

use std::collections::BTreeSet;

use cheops_types::{SiteName, Stamp};

use super::{
    Step,
    sane::{MILLIS_MAX, SEQ_MAX},
};
use crate::{
    Answer, Author, Draft, Effect, Entry, Job, OpId, Operation, Outcome, Phase, Reason, Request, Secret,
    Standing, State, Token, Vector, Verb, Work,
};

impl Step<'_> {
    /// Queues a write, or says why this site cannot take it. Nothing has executed then.
    pub(super) fn request(&mut self, draft: Draft) {
        if self.is_under_way(&draft) {
            return;
        }
        if let Some(answer) = self.objection(&draft.verb) {
            return self.answer(draft.token, answer);
        }
        // An operator makes this side the one that goes on.
        self.set.standing = Standing::Member;
        self.set.queue.push_back(draft);
    }

    fn objection(&self, verb: &Verb) -> Option<Answer> {
        let set = &*self.set;
        let leaving = set.members.get(self.here()).is_none_or(|me| me.leaving.is_some());
        // A site that leaves may still let others in: where all leave at once, that is the way on.
        let may_enter = matches!(verb, Verb::Join { .. });
        // A site that was removed may remove those that removed it: they may be lost.
        let is_in = match set.standing {
            Standing::Member => !leaving || may_enter,
            Standing::Expelled => matches!(verb, Verb::Expel { .. }),
            Standing::Left => false,
        };
        if !is_in {
            return Some(Answer::NotHere(Reason::NotMember));
        }
        let is_create = matches!(verb, Verb::Create(_));
        if set.deleted.is_some() && verb.is_for_application() && !is_create {
            return Some(Answer::Gone);
        }
        let stays = |site: &SiteName| set.members.get(site).is_some_and(|it| it.leaving.is_none());
        let is_needed = |site: &SiteName| set.members.keys().all(|other| other == site || !stays(other));
        match verb {
            // Only a name that a client chose can be met again.
            Verb::Create(_) if set.record.name.is_none() => Some(Answer::NotHere(Reason::Meaningless)),
            // A site may stay after all, where there would be none left.
            Verb::Join { site, .. } if set.members.contains_key(site) && !self.is_last(site) => {
                Some(Answer::NotHere(Reason::Meaningless))
            }
            Verb::Leave { site } if !stays(site) || is_needed(site) => {
                Some(Answer::NotHere(Reason::Meaningless))
            }
            Verb::Expel { site } if !set.members.contains_key(site) || site == self.here() => {
                Some(Answer::NotHere(Reason::Meaningless))
            }
            Verb::Dismiss { loser } if !set.conflicts.contains_key(loser) => {
                Some(Answer::NotHere(Reason::Meaningless))
            }
            _ if !verb.is_for_application() => None,
            _ if set.in_doubt().is_some() => Some(Answer::NotHere(Reason::InDoubt)),
            _ if set.local.is_none() && !is_create => Some(Answer::NotHere(Reason::NoReplica)),
            // What a replica that is not what it should be makes of a write would be everybody's.
            _ if self.is_for_group(verb) && set.degraded.is_some() => {
                Some(Answer::NotHere(Reason::NoReplica))
            }
            _ => None,
        }
    }

    /// Whether `site` is this one, and all members were told to leave, each by another at the same time.
    fn is_last(&self, site: &SiteName) -> bool {
        let mut members = self.set.members.values();
        site == self.here() && members.all(|member| member.leaving.is_some())
    }

    /// Begins with the next write of the queue. False when there is none that can begin.
    pub(super) fn begin_accept(&mut self) -> bool {
        if self.set.promise_ms <= self.now_ms() {
            self.set.promise_ms = 0;
        }
        let is_birth = self.set.held.is_empty();
        let next = self.set.queue.iter().position(|draft| !self.must_wait(draft));
        let Some((at, draft)) = next.and_then(|at| Some((at, self.set.queue.get(at)?))) else {
            return false;
        };
        if !is_birth && let Some(answer) = self.objection(&draft.verb) {
            let token = draft.token;
            self.set.queue.remove(at);
            self.answer(token, answer);
            return true;
        }
        if !self.needs_are_met(&draft.needs) || self.lags_behind_group(&draft.verb) {
            return false;
        }
        let Some(mut draft) = self.set.queue.remove(at) else {
            return false;
        };
        let Some(id) = self.next_id() else {
            self.answer(draft.token, Answer::NotHere(Reason::InDoubt));
            return true;
        };
        let conditions = draft.conditions.take();
        let (promised, remakes) = (draft.promised, draft.remakes);
        let (op, credential) = self.record(id, draft);
        if op.verb.is_for_application() {
            let work = Work::Accept {
                op: Box::new(op),
                conditions,
                credential,
                answered: false,
                promised,
                remakes,
            };
            self.start(work);
        } else {
            let (token, id) = (op.token, op.id.clone());
            self.insert(op, credential);
            self.note(&id);
            self.answer(token, Answer::Noted { operation: id });
        }
        true
    }

    /// Whether a write is passed over for now. A set begins with a create. And nobody else takes over what was promised:
    /// it waits where others are told to go elsewhere, and does not hold them up.
    fn must_wait(&self, draft: &Draft) -> bool {
        let is_birth = self.set.held.is_empty();
        let is_create = matches!(draft.verb, Verb::Create(_));
        if is_birth && !is_create {
            // Of a set that begins with something else, the other sites could make nothing. It goes when the create does.
            return true;
        }
        let has_no_replica = !is_create && self.set.local.is_none() && self.set.deleted.is_none();
        let lacks_replica = draft.verb.is_for_application() && has_no_replica && !self.is_nowhere();
        draft.promised && (self.set.promise_ms > self.now_ms() || lacks_replica)
    }

    /// The application has certainly not seen a promised write: it is tried again.
    pub(super) fn put_back(&mut self, job: Job) {
        let Work::Accept {
            op,
            conditions,
            credential,
            remakes,
            ..
        } = job.work
        else {
            return;
        };
        self.set.job = None;
        self.set.promise_ms = self.now_ms() + self.context.tuning.retry_ms(self.set.promise_tries);
        self.set.promise_tries = self.set.promise_tries.saturating_add(1);
        self.set.queue.push_front(Draft {
            token: op.token,
            verb: op.verb,
            touches: op.touches,
            recognise: op.recognise,
            needs: op.needs,
            request: op.request,
            conditions,
            credential,
            promised: true,
            remakes,
        });
    }

    /// Makes an operation of a draft: it comes after everything that has executed here.
    pub(super) fn record(&mut self, id: OpId, draft: Draft) -> (Operation, Option<Secret>) {
        let mut verb = draft.verb;
        if let Verb::Join { site, stay } = &mut verb {
            let next = self
                .set
                .passages
                .get(site)
                .map_or(1, |passage| passage.stay.saturating_add(1));
            *stay = self.set.members.get(site).map_or(next, |member| member.stay);
        }
        let op = Operation {
            id,
            token: draft.token,
            time: self.next_time(),
            age: self.site.next_age(),
            after: self.set.done.clone(),
            births: if verb.is_for_application() {
                self.set.creates.keys().cloned().collect()
            } else {
                BTreeSet::new()
            },
            // Not more than what follows from it: others take no operation that says so.
            epoch: self.set.epoch.min(self.set.done.total()),
            verb,
            touches: draft.touches,
            recognise: draft.recognise,
            needs: draft.needs,
            request: draft.request,
            signature: Vec::new(),
        };
        (op, draft.credential)
    }

    /// The number of what this site writes next.
    ///
    /// ```text
    /// paris has executed 3 of its own numbers. Its store was set back before, and a peer brings back 4 and 5,
    /// which wait here; then all sites confirm that nothing was set back, although one of them knows better
    /// ```
    ///
    /// Nothing can be number 6 before 4 and 5 have executed. The numbers of this start of the agent are free: nobody
    /// can have brought any of them. None where even these are not.
    pub(super) fn next_id(&self) -> Option<OpId> {
        let usual = self.set.author(self.site);
        let anew = Author {
            incarnation: self.site.start(),
            ..usual.clone()
        };
        [usual, anew].into_iter().find_map(|author| {
            let last = self.set.held.last(&author);
            let is_free = last == self.set.done.last(&author) && last < SEQ_MAX;
            let seq = last.checked_add(1).filter(|_| is_free)?;
            Some(OpId { author, seq })
        })
    }

    /// Later than everything that has executed here. A clock that was ahead, here or elsewhere, when something
    /// was written carries this set along, and no other.
    fn next_time(&mut self) -> Stamp {
        let lead_max_ms = self.context.tuning.ahead_max_ms;
        let now = self.site.clock.tick(self.context.now_ms, lead_max_ms);
        now.max(self.later())
    }

    /// What follows everything that has executed here. Beyond the last time that any site takes for possible there is
    /// none: a member that has used it up ends the order of the set, not its operations.
    fn later(&self) -> Stamp {
        let last = Stamp {
            millis: MILLIS_MAX,
            count: u32::MAX,
        };
        self.set.time.next().min(last)
    }

    /// The application has executed an accepted write: now it is an operation of the set.
    pub(super) fn accepted(
        &mut self,
        mut op: Operation,
        credential: Option<Secret>,
        status: u16,
        answered: bool,
    ) {
        if let Some(twin) = self
            .set
            .brought_back(&op)
            .map(|entry| (entry.op.id.clone(), entry.is_done()))
        {
            return self.accepted_before(&op, twin, status, answered);
        }
        // A store that does not know how it ended is younger than it.
        op.age = self.site.next_age();
        let Some(next) = self.next_id() else {
            // It has executed and cannot be an operation of the set. The comparison finds what it left here.
            self.set.want_comparison();
            let status = Some(status);
            return if !answered {
                self.answer(op.token, Answer::Unknown { status });
            };
        };
        if op.id != next {
            // The agent has started since, or the others have brought back what this store had forgotten, under the
            // same number: nobody has heard of this one yet.
            op.id = next;
        }
        if op.after != self.set.done {
            // The set has noted something while the application was at it: this comes after that too.
            op.after = self.set.done.clone();
            op.time = op.time.max(self.later());
        }
        let (token, id) = (op.token, op.id.clone());
        self.insert(op, credential);
        self.conclude(&id, Outcome::Executed);
        if !answered {
            let answer = Answer::Accepted {
                operation: id,
                status,
            };
            self.answer(token, answer);
        }
    }

    /// The others have brought it back meanwhile: an earlier life of this store had shipped it.
    fn accepted_before(&mut self, op: &Operation, twin: (OpId, bool), status: u16, answered: bool) {
        let (operation, is_done) = twin;
        if !is_done && self.set.done.precedes(&operation) {
            self.conclude(&operation, Outcome::Executed);
        }
        if !answered {
            let answer = Answer::Accepted { operation, status };
            self.answer(op.token, answer);
        }
    }

    /// What was promised and waits here may have executed in an earlier life of this store: the copy that was put back is of
    /// before that, and the others bring it back as an operation. It has had its end, and must not begin once more. Its
    /// operation may be dropped before its turn in the queue comes, so this is looked for in every step. What another site
    /// writes under the same token is none of it.
    pub(super) fn end_what_came_back(&mut self) {
        let now = self.set.author(self.site);
        let is_of_before = |author: &Author| {
            let is_of_now = *author == now || author.incarnation == self.site.start();
            author.site == now.site && !is_of_now
        };
        let ended = |draft: &Draft| {
            let mut known = self.set.log.values().filter(|_| draft.promised);
            let is_same = |op: &Operation| op.token == draft.token && is_of_before(&op.id.author);
            let entry = known.find(|entry| is_same(&entry.op))?;
            Some((draft.token, entry.op.id.clone()))
        };
        let ended: Vec<_> = self.set.queue.iter().filter_map(ended).collect();
        for (token, operation) in ended {
            self.set.queue.retain(|draft| draft.token != token);
            let status = 200;
            self.answer(token, Answer::Accepted { operation, status });
        }
    }

    /// The application has not executed an accepted write: it leaves no trace.
    pub(super) fn dropped(&mut self, op: &Operation, answered: bool, answer: Answer) {
        if self.is_left_to_group(op, &answer) {
            return;
        }
        self.set.job = None;
        if !answered {
            self.answer(op.token, answer);
        }
        // A name that has a history, or that another site has created meanwhile, keeps its set.
        let is_create = |draft: &Draft| matches!(draft.verb, Verb::Create(_));
        let is_last = !self.set.queue.iter().any(is_create);
        if matches!(op.verb, Verb::Create(_)) && self.set.held.is_empty() && is_last {
            self.set.standing = Standing::Left;
            self.refuse_queue();
            // Whatever waits for it waits for nothing now.
            self.moved();
            self.effects.push(Effect::Forget);
        }
    }

    /// Another site has the number of the write that is accepted here. This store was set back while the application
    /// executed it, and what it remembers has ended long ago:
    ///
    /// ```text
    /// paris asks its application for a create, which would be number 1;  a copy of the disk is made
    /// paris accepts it as number 1, answers, ships it to rome;           the copy is put back
    /// paris remembers a create in doubt. Rome has number 1: the create, or what took its number when it was refused
    /// ```
    ///
    /// Whoever settled it now, the application or an operator, would make a second create of it.
    pub(super) fn note_ended(&mut self, known: &Vector) {
        // Nobody else can know what this life of the store is writing.
        let mine = self.set.author(self.site);
        if let Some(job) = &mut self.set.job
            && let Work::Accept { op, .. } = &job.work
            && op.id.author != mine
            && known.includes(&op.id)
            && self
                .set
                .log
                .get(&op.id)
                .is_none_or(|other| other.op.token == op.token)
        {
            job.over = true;
            self.end_what_is_over();
        }
    }

    /// A write of an earlier life of this store may have had its end in it. For a while, the others are listened to
    /// before it is settled; true while one has not spoken yet.
    pub(super) fn waits_for_word(&mut self) -> bool {
        /// How often it waits as long as an application may take.
        const PATIENCE: u32 = 8;
        let mine = self.set.author(self.site);
        let speaks = |site| {
            let peer = self.set.peers.get(site);
            peer.is_some_and(|peer| peer.speaks_to == self.site.incarnation())
        };
        let is_sure = !self.site.is_new() || self.set.others(self.here()).iter().all(speaks);
        let later_ms = self.now_ms() + self.context.tuning.settle_ms;
        match &mut self.set.job {
            Some(Job {
                work: Work::Accept { op, .. },
                phase,
                waited,
                ..
            }) if op.id.author != mine && !is_sure && *waited < PATIENCE => {
                *waited += 1;
                *phase = Phase::Doubt { until_ms: later_ms };
                true
            }
            _ => false,
        }
    }

    /// Forgets it, once the application can no longer be working on it. What it left is compared.
    pub(super) fn end_what_is_over(&mut self) -> bool {
        let now_ms = self.now_ms();
        let is_due = |job: &mut Job| match job.phase {
            _ if !job.over => false,
            Phase::Stuck => true,
            Phase::Doubt { until_ms } => until_ms <= now_ms,
            Phase::Running | Phase::Looking | Phase::Confirming { .. } | Phase::Proposed { .. } => false,
        };
        let Some(job) = self.set.job.take_if(is_due) else {
            return false;
        };
        if let Work::Accept {
            op, answered: false, ..
        } = job.work
        {
            self.answer(op.token, Answer::Unknown { status: None });
        }
        self.set.want_comparison();
        true
    }

    /// A new operation with what lost. The conflict stays until it is dismissed.
    pub(super) fn reapply(&mut self, loser: &OpId, token: Token, credential: Option<Secret>) {
        let conflict = self.set.conflicts.get(loser);
        // What is written to a strong set is for its group to order.
        let conflict = conflict.filter(|conflict| !self.is_for_group(&conflict.loser.verb));
        let Some(conflict) = conflict else {
            return self.answer(token, Answer::NotHere(Reason::Meaningless));
        };
        let again = Draft {
            token,
            verb: conflict.loser.verb.clone(),
            touches: conflict.loser.touches.clone(),
            recognise: conflict.loser.recognise,
            needs: conflict.loser.needs.clone(),
            // This site has verified nobody: whoever re-applies it brings a credential.
            request: Request {
                caller: None,
                ..conflict.loser.request.clone()
            },
            conditions: None,
            credential,
            promised: false,
            remakes: true,
        };
        self.request(again);
    }

    /// Puts an operation into the log and its concurrent losers into the queue of conflicts.
    pub(super) fn insert(&mut self, op: Operation, credential: Option<Secret>) {
        self.set.held.advance(&op.id);
        if matches!(op.verb, Verb::Create(_)) {
            self.set.recognise = op.recognise;
            if self.set.birth != op.token || self.set.born.is_none() {
                self.set.birth = op.token;
                self.set.born = Some(op.id.clone());
            }
        }
        self.find_losers(&op);
        let bare = self.comes_bare(&op);
        let entry = Entry::new(op, credential, State::Waiting(crate::Why::Turn));
        self.set.log.insert(Entry { bare, ..entry });
    }

    pub(super) fn start(&mut self, work: Work) {
        let ticket = self.site.ticket();
        // An operator has it tried again, and an attempt of before may have made something.
        let tries = u32::from(self.may_have_made(&work));
        self.set.job = Some(Job {
            ticket,
            work,
            phase: Phase::Running,
            tries,
            over: false,
            waited: 0,
            overslept: false,
            silent: 0,
            status: None,
            decision: None,
        });
        self.run();
    }
}
