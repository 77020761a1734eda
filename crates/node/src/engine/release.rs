//! What a commit lets out.

use std::{sync::Arc, time::Instant};

use cheops_ports::Told;
use cheops_replica::{Answer, Effect, Event, Message, MetaId, Site, Token};
use cheops_store::{Error, PayloadRef, Pending};
use cheops_types::{Outcome, Problem, SiteName};

use super::{Engine, Input, batch::Ended};
use crate::{
    caller::OnBehalf,
    core::Core,
    problems, promises,
    rows::{self, Kept, SiteRow},
    task::{Call, Task, What},
    told,
    waiting::Proposed,
};

/// A set that was touched by a batch that failed, or that could not go on when its time had come, is looked
/// at again after this.
const AGAIN_MS: u64 = 1_000;

/// Something that waits for a commit.
pub(super) enum Release {
    Task(Task),
    Answer {
        token: Token,
        answer: Answer,
        told: Told,
    },
    Progress {
        token: Token,
        told: Told,
    },
    /// For whoever has this site decide a write to a strong set.
    Proposed {
        token: Token,
        proposed: Proposed,
    },
    Failed {
        token: Token,
        problem: Problem,
    },
}

impl Release {
    /// An effect of a step on this set.
    pub(super) fn of(core: &Core, kept: &Kept, effect: Effect) -> Option<Self> {
        let here = &core.site;
        let set = &kept.set;
        Some(match effect {
            Effect::Send { to, message } => Self::send(to, message),
            Effect::Execute(execution) => call(core, kept, What::Execute(execution)),
            Effect::Look { ticket, token } => call(core, kept, What::Look { ticket, token }),
            Effect::Read { ticket, local } => call(core, kept, What::Read { ticket, local }),
            Effect::Answer { token, answer } => {
                let told = match &answer {
                    Answer::Accepted { operation, status } => {
                        told::accepted(set, here, operation, Some(*status))
                    }
                    Answer::Noted { operation } => told::accepted(set, here, operation, None),
                    Answer::Refused { status } => told::dropped(set, here, Outcome::Executed, Some(*status)),
                    Answer::Unknown { status } => told::dropped(set, here, Outcome::Unknown, *status),
                    Answer::NotHere(_) | Answer::Gone => told::dropped(set, here, Outcome::NotExecuted, None),
                };
                Self::Answer { token, answer, told }
            }
            Effect::Propose { token, proposal } => {
                let set = set.record().meta.clone();
                let proposed = Proposed { set, proposal };
                Self::Proposed { token, proposed }
            }
            Effect::Progress { operation, token } => {
                if !core.waiting.has(token) {
                    return None;
                }
                let told = told::accepted(set, here, &operation, None);
                Self::Progress { token, told }
            }
            Effect::Moved(_) | Effect::Forget => return None,
        })
    }

    /// The write whose end it is.
    pub(super) fn ends(&self) -> Option<Token> {
        match self {
            Self::Answer { token, .. } | Self::Failed { token, .. } => Some(*token),
            Self::Task(_) | Self::Progress { .. } | Self::Proposed { .. } => None,
        }
    }

    /// An effect that is about no set of this site.
    pub(super) fn alone(effect: Effect) -> Option<Self> {
        match effect {
            Effect::Send { to, message } => Some(Self::send(to, message)),
            _ => None,
        }
    }

    /// Asked for with every change of the set while it is missing: the runner knows what is under way.
    pub(super) fn fetch(meta: &MetaId, payload: PayloadRef) -> Self {
        let set = meta.clone();
        Self::Task(Task::Fetch { set, payload })
    }

    fn send(to: SiteName, message: Message) -> Self {
        let message = Box::new(message);
        Self::Task(Task::Send { to, message })
    }

    /// What is sent says how old the store is that knows it.
    pub(super) fn stamp(&mut self, site: &Site) {
        if let Self::Task(Task::Send { message, .. }) = self {
            message.stamp(site);
        }
    }
}

fn call(core: &Core, kept: &Kept, what: What) -> Release {
    let set = &kept.set;
    let others = set.members().keys().filter(|site| **site != core.site);
    Release::Task(Task::Call(Box::new(Call {
        set: Arc::new(set.record().clone()),
        others: others.cloned().collect(),
        stand_in: match &what {
            What::Look { .. } | What::Read { .. } => OnBehalf::under_way(kept),
            What::Execute(_) => OnBehalf::last_of(kept),
        },
        what,
    })))
}

impl Engine {
    /// Makes a batch durable and lets its effects out, or undoes it.
    pub(super) fn commit(&mut self, mut ended: Ended) {
        if let Some(error) = ended.broken.take() {
            return self.failed(ended, &error);
        }
        let changes = std::mem::take(&mut ended.changes);
        if changes.is_empty() && ended.record.is_like(&self.record) {
            return self.committed(ended);
        }
        let record = ended.record.clone();
        let promises = ended.promises.clone();
        let dropped = self.promises.surplus(ended.ends());
        let begin = Instant::now();
        let written = self.core.store.write(move |session| {
            for change in changes {
                change.apply(session)?;
            }
            promises::apply(session, &promises, &dropped)?;
            session.put::<SiteRow>(&(), &record)
        });
        let written = written.and_then(Pending::wait);
        self.core.commit_times.add(begin.elapsed());
        match written {
            Ok(()) => self.committed(ended),
            Err(Error::Unknown(_)) if self.find_out(ended.record.commits) => self.committed(ended),
            Err(error) => self.failed(ended, &error),
        }
    }

    fn committed(&mut self, ended: Ended) {
        let dropped = self.promises.surplus(ended.ends()).len();
        self.promises.note(&ended.promises, dropped);
        let answered = ended.ended();
        self.record = ended.record;
        self.core.life.set(&self.record.site);
        self.failures = 0;
        if self.unstored.is_empty() {
            self.retry_at = None;
        }
        let ahead_max_ms = self.core.surroundings.limits().clock_ahead_max_ms;
        for meta in &ended.touched {
            self.announce(meta);
            let held = self.cache.get(meta);
            let wake_ms = held
                .and_then(|held| held.kept.set.wake_at_ms(&self.core.site, ahead_max_ms))
                .map(|at_ms| {
                    let was_due = at_ms <= ended.now_ms;
                    if was_due { ended.now_ms + AGAIN_MS } else { at_ms }
                });
            self.timers.set(meta, wake_ms);
        }
        for moved in ended.moved {
            self.wake_dependents(&moved);
        }
        for (meta, token) in ended.tokens {
            // One that has its end already leaves nothing to be promised.
            if answered.contains(&token) {
                continue;
            }
            let recorded = self
                .cache
                .get(&meta)
                .map(|held| told::recorded(&held.kept.set, &self.core.site, token));
            self.core.waiting.advance(token, |stage| {
                stage.recorded = recorded.is_some();
                if stage.told.is_none() {
                    stage.told = recorded;
                }
            });
        }
        for (done, outcome) in ended.dones {
            // Whoever asked may have gone.
            let _ = done.send(outcome);
        }
        for (done, welcome) in ended.welcomes {
            let _ = done.send(welcome);
        }
        for release in ended.releases {
            self.release(release);
        }
    }

    fn release(&self, release: Release) {
        let waiting = &self.core.waiting;
        match release {
            // Without a runner the agent stops; the next start asks again.
            Release::Task(task) => drop(self.tasks.blocking_send(task)),
            Release::Answer { token, answer, told } => {
                self.core.finished.put(token, &answer, &told);
                waiting.advance(token, |stage| {
                    stage.answer = Some(answer);
                    stage.told = Some(told);
                });
            }
            Release::Proposed { token, proposed } => {
                waiting.advance(token, |stage| stage.proposed = Some(proposed));
            }
            Release::Progress { token, told } => waiting.advance(token, |stage| stage.told = Some(told)),
            Release::Failed { token, problem } => {
                waiting.advance(token, |stage| stage.failed = Some(problem));
            }
        }
    }

    /// Nothing of the batch has happened.
    fn failed(&mut self, ended: Ended, error: &Error) {
        tracing::error!(%error, "replication cannot write its store");
        let problem = problems::store(&self.core.site, error);
        let again_ms = self.core.surroundings.now_ms() + AGAIN_MS;
        for meta in ended.touched {
            // The store has it as it was.
            self.cache.take(&meta);
            self.timers.set(&meta, Some(again_ms));
        }
        for (_, token) in ended.tokens {
            self.fail(token, &problem);
        }
        for release in ended.releases {
            if let Release::Failed { token, problem } = release {
                self.fail(token, &problem);
            }
        }
        for (done, _) in ended.dones {
            let _ = done.send(Err(problem.clone()));
        }
        self.keep(ended.results);
    }

    /// The store cannot even be read.
    pub(super) fn refuse(&mut self, inputs: Vec<Input>, error: &Error) {
        tracing::error!(%error, "replication cannot read its store");
        let problem = problems::store(&self.core.site, error);
        let mut results = Vec::new();
        for input in inputs {
            match input {
                Input::Create { draft, .. } | Input::Request { draft, .. } => {
                    self.fail(draft.token, &problem);
                }
                Input::Adopt { token, .. } => self.fail(token, &problem),
                Input::Tell { done, .. } | Input::Receive { done, .. } | Input::Decide { done, .. } => {
                    let _ = done.send(Err(problem.clone()));
                }
                Input::Result { set, event } => results.push((set, event)),
                // Whoever waits hears that nobody will tell.
                Input::PeerUp(_)
                | Input::PeerLife { .. }
                | Input::Hello { .. }
                | Input::Welcomed { .. }
                | Input::Watch { .. } => {}
            }
        }
        self.keep(results);
    }

    fn fail(&self, token: Token, problem: &Problem) {
        self.core
            .waiting
            .advance(token, |stage| stage.failed = Some(problem.clone()));
    }

    /// What became of executions must not be forgotten: it is stored as soon as that is possible.
    pub(super) fn keep(&mut self, results: Vec<(MetaId, Event)>) {
        self.unstored.extend(results);
        self.pause();
    }

    /// Sets that wait for this one go on.
    fn wake_dependents(&mut self, moved: &MetaId) {
        let woken = self.core.store.read().and_then(|read| {
            let mut woken = Vec::new();
            for meta in rows::dependents(&read, moved)? {
                if rows::is_unsettled(&read, &meta)? {
                    woken.push(meta);
                }
            }
            Ok(woken)
        });
        match woken {
            Ok(woken) => self.woken.extend(woken),
            Err(error) => {
                tracing::error!(%error, set = %moved, "those that wait for a replica set cannot be found");
            }
        }
    }

    /// Lets the data plane know by which ids a set is called here, before anyone is answered.
    fn announce(&mut self, meta: &MetaId) {
        let Some(held) = self.cache.get_mut(meta) else {
            return;
        };
        let set = &held.kept.set;
        let local = set.local().cloned();
        if held.is_announced && held.announced == local {
            return;
        }
        rows::announce(set, &self.core.presence);
        let has_parents = !set.record().parents.is_empty();
        held.is_announced = true;
        held.announced = local;
        if !has_parents {
            return;
        }
        match self.core.store.read().and_then(|read| rows::row(&read, meta)) {
            Ok(row) => {
                row.inspect(|row| rows::announce_row(meta, row, &self.core.presence));
            }
            Err(error) => {
                held.is_announced = false;
                tracing::error!(%error, set = %meta, "a replica set cannot be read");
            }
        }
    }
}
