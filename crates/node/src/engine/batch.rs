//! What happens within one commit.

mod fence;
mod ids;

use std::collections::{BTreeMap, HashSet};

use cheops_glue::Kind;
use cheops_replica::{
    Answer, Content, Context, Decision, Draft, Effect, Event, Message, MetaId, Phase, Reason, Set, Site,
    Token, Tuning, Welcome, adopt, create, decided, receive, step,
};
use cheops_store::{Error, ReadSession};
use cheops_types::{Limit, Problem, SiteName};
use tokio::sync::oneshot;

use self::ids::is_of_another_set;
use super::{
    Busy, Engine, Input,
    change::{Change, LoadedSet},
    guard::guarded,
    release::Release,
    rules::SiteRules,
    sweep::{Sweep, Visit},
};
use crate::{
    mint::NewId,
    problems,
    promises::Promise,
    rows::{self, Kept, SiteRecord},
};

/// Who waits for a batch to be durable.
pub(super) type Done = oneshot::Sender<Result<(), Problem>>;

/// A batch under way. The sets that it touches are in the engine's cache as they would be after it.
pub(super) struct Batch<'e> {
    engine: &'e mut Engine,
    tuning: &'e Tuning,
    now_ms: u64,
    read: ReadSession,
    record: SiteRecord,
    /// The touched sets, and whether each was stored before.
    before: BTreeMap<MetaId, bool>,
    forgotten: BTreeMap<MetaId, LoadedSet>,
    /// Writes of this batch whose callers are told that they will execute, unless they have their end in it.
    promised: Vec<(MetaId, Token)>,
    ended: Ended,
}

/// A batch that waits for its commit.
pub(super) struct Ended {
    pub(super) now_ms: u64,
    pub(super) record: SiteRecord,
    pub(super) changes: Vec<Change>,
    /// The sets that it leaves in the cache.
    pub(super) touched: Vec<MetaId>,
    pub(super) releases: Vec<Release>,
    pub(super) dones: Vec<(Done, Result<(), Problem>)>,
    /// Of a site that was welcomed, only what it has sent since counts. Where this is undone it must say hello again.
    pub(super) welcomes: Vec<(oneshot::Sender<Welcome>, Welcome)>,
    /// Callers of its writes.
    pub(super) tokens: Vec<(MetaId, Token)>,
    /// What became of executions.
    pub(super) results: Vec<(MetaId, Event)>,
    pub(super) moved: Vec<MetaId>,
    /// Promises that were made or have their end.
    pub(super) promises: Vec<(Token, Promise)>,
    /// Why a set of it cannot be written down: then nothing of it is.
    pub(super) broken: Option<Error>,
}

impl Ended {
    /// How many promises have their end in it.
    pub(super) fn ends(&self) -> usize {
        let promises = self.promises.iter();
        promises.filter(|(_, promise)| promise.end.is_some()).count()
    }

    /// The writes that have their end in it.
    pub(super) fn ended(&self) -> HashSet<Token> {
        self.releases.iter().filter_map(Release::ends).collect()
    }
}

impl<'e> Batch<'e> {
    pub(super) fn begin(engine: &'e mut Engine, tuning: &'e Tuning) -> Result<Self, Error> {
        let record = engine.record.clone();
        let now_ms = engine.core.surroundings.now_ms();
        Ok(Self {
            tuning,
            now_ms,
            read: engine.core.store.read()?,
            before: BTreeMap::new(),
            forgotten: BTreeMap::new(),
            promised: Vec::new(),
            ended: Ended {
                now_ms,
                record: record.clone(),
                changes: Vec::new(),
                touched: Vec::new(),
                releases: Vec::new(),
                dones: Vec::new(),
                welcomes: Vec::new(),
                tokens: Vec::new(),
                results: Vec::new(),
                moved: Vec::new(),
                promises: Vec::new(),
                broken: None,
            },
            record,
            engine,
        })
    }

    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Create {
                id: NewId::Named,
                draft,
            } => self.create_named(*draft),
            Input::Create { id, draft } => self.create(id, *draft),
            Input::Request { set, draft } => self.request(&set, *draft),
            Input::Adopt {
                id,
                birth,
                local,
                token,
                recognise,
            } => {
                self.begin_set(id, token, |site, meta, context| {
                    adopt(site, meta, *birth, local, token, recognise, context)
                });
            }
            Input::Result { set, event } => self.result(set, event),
            Input::Tell { set, event, done } => {
                let outcome = self.happen(&set, event);
                self.ended.dones.push((done, outcome));
            }
            Input::Receive { messages, done } => {
                let outcome = messages.into_iter().try_for_each(|message| self.receive(message));
                self.ended.dones.push((done, outcome));
            }
            Input::Decide { set, decision, done } => {
                let outcome = self.decide(&set, *decision);
                self.ended.dones.push((done, outcome));
            }
            Input::Watch { set, done } => {
                if let Err(error) = self.load(&set) {
                    tracing::error!(%error, %set, "a replica set cannot be read");
                }
                self.engine.watches.push(set, done);
            }
            Input::PeerLife { site, incarnation } => self.peer_life(site, incarnation),
            Input::Hello { from, hello, done } => {
                let welcome = self.record.site.welcome(&from, &hello);
                self.ended.welcomes.push((done, welcome));
            }
            Input::Welcomed { from, welcome } => self.welcomed(&from, welcome),
            Input::PeerUp(site) => {
                let missed = self.engine.core.missed.take(&site);
                let mut sweeps = self.engine.sweeps.iter_mut();
                match sweeps.find(|sweep| sweep.peer() == Some(&site)) {
                    Some(sweep) => sweep.add_missed(missed),
                    None => self.engine.sweeps.push_back(Sweep::peer_up(site, missed)),
                }
            }
        }
    }

    fn welcomed(&mut self, from: &SiteName, welcome: Welcome) {
        if self.record.site.welcomed(from, welcome, self.now_ms) {
            tracing::error!(
                site = %from,
                "this site's store is older than the other site remembers it: it was set back, and takes what it has forgotten from the others"
            );
        }
    }

    /// A site whose store is another one than before has lost what it knew of its sets.
    fn peer_life(&mut self, site: SiteName, incarnation: u64) {
        match self.record.lives.get(&site) {
            None => drop(self.record.lives.insert(site, incarnation)),
            Some(known) if *known < incarnation => {
                let life = Some((&site, incarnation));
                if !self.engine.sweeps.iter().any(|sweep| sweep.life() == life) {
                    tracing::warn!(%site, "the store of the site is new or restored: its sets are told to it again");
                    self.engine.sweeps.push_back(Sweep::peer_life(site, incarnation));
                }
            }
            Some(_) => {}
        }
    }

    /// What became of executions, and could not be stored before.
    pub(super) fn unstored(&mut self) {
        if self.engine.is_retry_due() {
            for (set, event) in std::mem::take(&mut self.engine.unstored) {
                self.result(set, event);
            }
        }
    }

    /// Sets whose time has come, or that waited for another one.
    pub(super) fn wake(&mut self) {
        let mut due = std::mem::take(&mut self.engine.woken);
        due.extend(self.engine.timers.due(self.now_ms, super::BATCH_MAX));
        for meta in due {
            if let Err(problem) = self.happen(&meta, Event::Wake) {
                tracing::warn!(set = %meta, problem = %problem.detail, "a replica set cannot go on");
            }
        }
    }

    /// Some of the sets that have something left to do, after a start or when a site is back.
    pub(super) fn sweep(&mut self) {
        if !self.engine.is_retry_due() {
            return;
        }
        let Some(mut sweep) = self.engine.sweeps.pop_front() else {
            return;
        };
        match sweep.next(&self.read) {
            Ok(None) => {
                // Noted last: a walk that a crash cuts short begins again.
                if let Some((site, incarnation)) = sweep.life() {
                    self.record.lives.insert(site.clone(), incarnation);
                }
                return;
            }
            Ok(Some(page)) => {
                for visit in page {
                    self.sweep_one(&sweep, &visit);
                }
            }
            Err(error) => {
                tracing::error!(%error, "the store cannot be read");
                self.engine.pause();
            }
        }
        self.engine.sweeps.push_front(sweep);
    }

    fn sweep_one(&mut self, sweep: &Sweep, visit: &Visit) {
        let meta = &visit.meta;
        match self.load(meta) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::error!(%error, set = %meta, "a replica set cannot be read"),
        }
        let held = self.engine.cache.get(meta);
        if let Some(event) = held.and_then(|held| sweep.event(&held.kept.set, visit.has_missed)) {
            self.step(meta, event);
        }
    }

    fn request(&mut self, meta: &MetaId, draft: Draft) {
        let token = draft.token;
        self.ended.tokens.push((meta.clone(), token));
        if draft.promised {
            self.promised.push((meta.clone(), token));
        }
        let known = match self.load(meta) {
            Ok(known) => known,
            Err(error) => return self.fail(token, self.problem(&error)),
        };
        let Some(held) = self.engine.cache.get(meta).filter(|_| known) else {
            return self.fail(token, problems::unknown_set(&self.engine.core.site, meta));
        };
        if self.is_of_the_past(&held.kept) {
            let answer = Answer::NotHere(Reason::NoReplica);
            let effect = Effect::Answer { token, answer };
            let release = Release::of(&self.engine.core, &held.kept, effect);
            return self.ended.releases.extend(release);
        }
        let queue_max = self.engine.inbox.queue_max();
        if held.kept.set.queue().count() >= queue_max {
            // Behind an execution that takes long, writes must not pile up without end.
            Limit::EngineQueue.hit();
            let busy = Busy::Full { queue_max };
            return self.fail(token, busy.problem(&self.engine.core.site));
        }
        self.step(meta, Event::Request(draft));
    }

    /// Whether the store was restored and no other site has brought the set up to date since.
    fn is_of_the_past(&self, kept: &Kept) -> bool {
        kept.incarnation != self.record.site.incarnation() && kept.set.members().len() > 1
    }

    fn create(&mut self, id: NewId, draft: Draft) {
        let (token, is_promised) = (draft.token, draft.promised);
        let meta = self.begin_set(id, token, |site, meta, context| {
            create(site, meta, draft, context)
        });
        if is_promised {
            self.promised.extend(meta.map(|meta| (meta, token)));
        }
    }

    fn begin_set(
        &mut self,
        id: NewId,
        token: Token,
        begin: impl FnOnce(&mut Site, &MetaId, &Context<'_>) -> (Set, Vec<Effect>),
    ) -> Option<MetaId> {
        let meta = match self.unused(id) {
            Ok(meta) => meta,
            Err(problem) => {
                self.fail(token, problem);
                return None;
            }
        };
        self.ended.tokens.push((meta.clone(), token));
        let begun = self.with_context(None, |site, context| begin(site, &meta, context));
        match begun {
            Ok((set, effects)) => self.enter(&meta, set, true, effects),
            Err(why) => {
                self.fence(&meta, why);
                return None;
            }
        }
        Some(meta)
    }

    fn receive(&mut self, message: Message) -> Result<(), Problem> {
        let meta = message.set.clone();
        let is_known = self.load(&meta).map_err(|error| self.problem(&error))?;
        if is_known {
            let held = self.engine.cache.get(&meta);
            if held.is_some_and(|held| is_of_another_set(&held.kept.set, &message)) {
                tracing::error!(
                    set = %meta, from = %message.from,
                    "two replica sets have one meta-id: what the site sends of the other one is not taken; \
                     delete that one there and create it again"
                );
                return Ok(());
            }
            let incarnation = message.incarnation;
            self.step(&meta, Event::Message(message));
            // Whoever knows of this life of the store has told what it missed.
            if incarnation == self.record.site.incarnation()
                && let Some(held) = self.engine.cache.get_mut(&meta)
            {
                held.kept.incarnation = incarnation;
            }
            return Ok(());
        }
        if self.forgotten.contains_key(&meta) {
            // It ends in this very batch. What begins anew comes again.
            return Ok(());
        }
        let begins = matches!(message.content, Content::Operations(_));
        match self.with_context(None, |site, context| receive(site, message, context)) {
            Ok((Some(set), effects)) => self.enter(&meta, set, begins, effects),
            Ok((None, effects)) => self
                .ended
                .releases
                .extend(effects.into_iter().filter_map(Release::alone)),
            Err(why) => self.fence(&meta, why),
        }
        Ok(())
    }

    /// What was decided about a set, which begins with it perhaps.
    fn decide(&mut self, meta: &MetaId, decision: Decision) -> Result<(), Problem> {
        if self.load(meta).map_err(|error| self.problem(&error))? {
            self.step(meta, Event::Decided(decision));
            return Ok(());
        }
        if self.forgotten.contains_key(meta) {
            // It comes again, when this batch is over.
            return Err(problems::unknown_set(&self.engine.core.site, meta));
        }
        match self.with_context(None, |site, context| decided(site, meta, decision, context)) {
            Ok((Some(set), effects)) => self.enter(meta, set, true, effects),
            Ok((None, _)) => {}
            Err(why) => self.fence(meta, why),
        }
        Ok(())
    }

    /// Runs a step with what it may know; `kind` where an answer of the application may have to be read. The error is
    /// what the engine said when it broke.
    fn with_context<R>(
        &mut self,
        kind: Option<&Kind>,
        act: impl FnOnce(&mut Site, &Context<'_>) -> R,
    ) -> Result<R, String> {
        let rules = SiteRules {
            kind,
            cache: &self.engine.cache,
            read: &self.read,
        };
        let context = Context {
            now_ms: self.now_ms,
            tuning: self.tuning,
            rules: &rules,
        };
        guarded(|| act(&mut self.record.site, &context))
    }

    /// A set that is new here, with its create or with a state.
    fn enter(&mut self, meta: &MetaId, set: Set, begins: bool, effects: Vec<Effect>) {
        self.before.entry(meta.clone()).or_insert(false);
        let held = LoadedSet::new(self.record.run, self.record.site.incarnation(), set, begins);
        self.engine.cache.put(meta.clone(), held);
        self.collect(meta, effects);
    }

    fn result(&mut self, set: MetaId, event: Event) {
        match self.load(&set) {
            Ok(true) => {
                self.step(&set, event.clone());
                self.ended.results.push((set, event));
            }
            Ok(false) => tracing::warn!(%set, "an execution has ended for a replica set that is not here"),
            Err(error) => {
                tracing::error!(%error, %set, "a replica set cannot be read");
                self.engine.keep(vec![(set, event)]);
            }
        }
    }

    fn happen(&mut self, meta: &MetaId, event: Event) -> Result<(), Problem> {
        if self.load(meta).map_err(|error| self.problem(&error))? {
            self.step(meta, event);
            return Ok(());
        }
        Err(problems::unknown_set(&self.engine.core.site, meta))
    }

    /// Brings a set into the cache; false when this site knows none. One that an earlier start of the agent
    /// wrote last resumes first, which may be its end.
    fn load(&mut self, meta: &MetaId) -> Result<bool, Error> {
        if self.forgotten.contains_key(meta) {
            return Ok(false);
        }
        if self.engine.cache.get(meta).is_none() {
            let Some(kept) = rows::kept(&self.read, meta)? else {
                return Ok(false);
            };
            self.engine.cache.put(meta.clone(), LoadedSet::stored(kept));
        }
        let is_of_this_run = |held: &LoadedSet| held.kept.run == self.record.run;
        if !self.engine.cache.get(meta).is_some_and(is_of_this_run) {
            self.remember(meta);
            if let Some(held) = self.engine.cache.get_mut(meta) {
                held.kept.run = self.record.run;
            }
            self.step(meta, Event::Resume);
            self.break_off(meta);
        }
        Ok(!self.forgotten.contains_key(meta))
    }

    /// What was under way when the agent stopped had its connection ended then.
    fn break_off(&mut self, meta: &MetaId) {
        let job = self.engine.cache.get(meta).and_then(|held| held.kept.set.job());
        // What has begun just now is none of it.
        let Some(job) = job.filter(|job| matches!(job.phase, Phase::Doubt { .. })) else {
            return;
        };
        let (ticket, settle_ms) = (job.ticket, self.engine.core.surroundings.limits().doubt_broken_ms);
        self.step(meta, Event::Broken { ticket, settle_ms });
    }

    /// Notes what a set was before the batch.
    fn remember(&mut self, meta: &MetaId) {
        if self.before.contains_key(meta) {
            return;
        }
        let held = self.engine.cache.get_mut(meta);
        self.before.insert(meta.clone(), held.is_some());
        if let Some(held) = held {
            held.remember(&self.engine.core.site);
        }
    }

    /// Lets something happen to a set that is in the cache.
    fn step(&mut self, meta: &MetaId, event: Event) {
        self.remember(meta);
        let Some(mut held) = self.engine.cache.take(meta) else {
            return;
        };
        let profile = self.engine.core.surroundings.profile();
        let record = held.kept.set.record();
        let kind = profile.kind(&record.service, &record.kind);
        let dropped = held.kept.set.conflicts_dropped();
        let spent = held.kept.set.executions_spent();
        let stepped = self.with_context(Some(&kind), |site, context| {
            step(site, &mut held.kept.set, event, context)
        });
        let effects = match stepped {
            Ok(effects) => effects,
            Err(why) => return self.fence(meta, why),
        };
        if held.kept.set.conflicts_dropped() > dropped {
            Limit::SetConflicts.hit();
            tracing::warn!(set = %meta, "a replica set has more conflicts than are kept: the oldest are dropped");
        }
        if held.kept.set.executions_spent() > spent {
            Limit::ExecutionTries.hit();
            tracing::warn!(set = %meta, "an execution got no answer too often: it is not sent again by itself");
        }
        self.engine.cache.put(meta.clone(), held);
        self.collect(meta, effects);
    }

    fn collect(&mut self, meta: &MetaId, effects: Vec<Effect>) {
        let mut is_over = false;
        if let Some(held) = self.engine.cache.get(meta) {
            let core = &self.engine.core;
            for effect in effects {
                match effect {
                    Effect::Moved(meta) => self.ended.moved.push(meta),
                    Effect::Forget => is_over = true,
                    Effect::Answer { token, answer } if self.engine.promises.is_open(token) => {
                        let set = &held.kept.set;
                        let promise = Promise::ended(set, &core.site, &answer, self.now_ms);
                        self.ended.promises.push((token, promise));
                        let effect = Effect::Answer { token, answer };
                        self.ended.releases.extend(Release::of(core, &held.kept, effect));
                    }
                    effect => self.ended.releases.extend(Release::of(core, &held.kept, effect)),
                }
            }
        }
        if is_over && let Some(held) = self.engine.cache.take(meta) {
            self.forgotten.insert(meta.clone(), held);
        }
    }

    fn fail(&mut self, token: Token, problem: Problem) {
        self.ended.releases.push(Release::Failed { token, problem });
    }

    fn problem(&self, error: &Error) -> Problem {
        problems::store(&self.engine.core.site, error)
    }

    /// What is to be written.
    pub(super) fn end(mut self) -> Ended {
        let here = self.engine.core.site.clone();
        for (meta, was_stored) in self.before {
            if let Some(held) = self.forgotten.remove(&meta) {
                if was_stored {
                    self.ended.changes.push(held.forget());
                }
                continue;
            }
            let Some(held) = self.engine.cache.get_mut(&meta) else {
                continue;
            };
            let change = held.change(&here).unwrap_or_else(|error| {
                self.ended.broken = Some(error);
                None
            });
            if change.is_some() {
                let fetches = rows::bare(&held.kept.set);
                let fetches = fetches.map(|payload| Release::fetch(&meta, payload));
                self.ended.releases.extend(fetches);
            }
            self.ended.changes.extend(change);
            self.ended.touched.push(meta);
        }
        let ended = self.ended.ended();
        for (meta, token) in self.promised {
            if !ended.contains(&token) {
                let promise = Promise::open(&self.engine.core, &meta, token, self.now_ms);
                self.ended.promises.push((token, promise));
            }
        }
        if !self.ended.changes.is_empty() {
            self.record.site.grow();
        }
        for release in &mut self.ended.releases {
            release.stamp(&self.record.site);
        }
        if !self.ended.changes.is_empty() || !self.record.is_like(&self.ended.record) {
            self.record.commits += 1;
        }
        self.ended.record = self.record;
        self.ended
    }
}
