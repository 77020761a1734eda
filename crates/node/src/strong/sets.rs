//! What the engine does for groups.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use cheops_replica::{
    Answer, Carried, Content, Draft, Message, MetaId, Operation, Proposal, Reason, Report, Token, Vector,
    Verb,
};
use cheops_strong::{Decision, Founding, GroupId, Intent, Sets, Undecided, Verdict};
use cheops_types::{Problem, SiteName};
use futures_util::future::LocalBoxFuture;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use tracing::{error, warn};

use super::{
    behind::Behind,
    content::{Asked, Made, Where},
};
use crate::{
    core::Core,
    inbox::Input,
    mint::NewId,
    named, rows, sign,
    waiting::{Proposed, Stage, Waiter},
};

/// The engine has too much to do, or cannot write its store.
const AGAIN: Duration = Duration::from_millis(50);
/// Beyond the application's own time: for the engine and its commits.
const SLACK: Duration = Duration::from_secs(5);
/// Generations of a name that a refused create may have been for.
const GENERATIONS_MAX: u32 = 1_000;

pub(super) struct EngineSets {
    core: Arc<Core>,
    behind: Behind,
}

impl EngineSets {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            behind: Behind::new(core),
        }
    }
}

impl Sets for EngineSets {
    fn decide<'a>(&'a self, group: &'a GroupId, intent: &'a Intent) -> LocalBoxFuture<'a, Decision> {
        Box::pin(async move { self.decided(group, intent).await })
    }

    fn conclude<'a>(
        &'a self,
        group: &'a GroupId,
        intent: &'a Intent,
        verdict: &'a Verdict,
    ) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            match verdict {
                Verdict::Executed { content } => self.executed_everywhere(group, intent, content).await,
                Verdict::Refused { status } => self.refused_everywhere(group, intent, *status).await,
            }
        })
    }

    fn executed<'a>(&'a self, group: &'a GroupId, set: &'a str) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            self.behind.catch_up(group, set).await;
            loop {
                let (done, told) = oneshot::channel();
                let set = MetaId::new(set);
                if self.core.engine.post(Input::Watch { set, done }).is_ok() && told.await.is_ok() {
                    return;
                }
                sleep(AGAIN).await;
            }
        })
    }

    fn skipped<'a>(&'a self, group: &'a GroupId) -> LocalBoxFuture<'a, ()> {
        Box::pin(async move {
            self.behind.note(group).await;
        })
    }
}

impl EngineSets {
    /// Has the application of this site decide.
    async fn decided(&self, group: &GroupId, intent: &Intent) -> Decision {
        let core = &*self.core;
        let Some(asked) = Asked::unpack(core, &intent.content) else {
            error!(token = %intent.token, "an intent of a strong set cannot be read: it is refused");
            return refused(500);
        };
        if asked.draft.token.0 != intent.token.0 {
            return refused(400);
        }
        if core.store.read().is_err() {
            return Decision::Undecided(Undecided::NotExecuted);
        }
        let is_own = core.own_intents.has(group, intent);
        if !is_own && core.waiting.has(asked.draft.token) {
            // Somebody has taken the token of a caller of this site for something else.
            return refused(403);
        }
        let asked = match self.believed(group, asked, is_own) {
            Ok(asked) => asked,
            Err(why) => {
                warn!(token = %intent.token, set = %intent.set, why, "an intent of a strong set is refused");
                return refused(403);
            }
        };
        let token = asked.draft.token;
        let mut waiter = core.waiting.attend(token);
        if let Some(proposed) = waiter.stage().proposed {
            return self.verdict(&proposed);
        }
        // What an earlier attempt ended with says nothing about this one.
        core.waiting
            .advance(token, |stage| (stage.answer, stage.failed) = (None, None));
        let Some(input) = self.input(&asked) else {
            return Decision::Undecided(Undecided::NotExecuted);
        };
        if core.engine.post(input).is_err() {
            return Decision::Undecided(Undecided::NotExecuted);
        }
        self.wait(&asked, &mut waiter).await
    }

    /// What the engine is to do. A set that an earlier attempt has begun goes on. None where the store cannot be read.
    fn input(&self, asked: &Asked) -> Option<Input> {
        let draft = Box::new(asked.draft.clone());
        Some(match (asked.new_id(), &asked.to) {
            (Some(NewId::Given(set)), _) if self.is_known(&set)? => Input::Request { set, draft },
            (Some(id), _) => Input::Create { id, draft },
            (None, Where::Set(meta) | Where::New(meta)) => Input::Request {
                set: MetaId::new(meta),
                draft,
            },
            (None, Where::Named) => return None,
        })
    }

    fn is_known(&self, set: &MetaId) -> Option<bool> {
        let row = rows::row(&self.core.store.read().ok()?, set).ok()?;
        Some(row.is_some())
    }

    async fn wait(&self, asked: &Asked, waiter: &mut Waiter) -> Decision {
        let has_ended =
            |stage: &Stage| stage.proposed.is_some() || stage.answer.is_some() || stage.failed.is_some();
        let patience = Duration::from_millis(self.core.surroundings.limits().upstream_timeout_ms) + SLACK;
        let stage = timeout(patience, waiter.until(has_ended)).await;
        let stage = stage.ok().flatten().unwrap_or_else(|| waiter.stage());
        let decision = self.ended(asked, &stage);
        decision.unwrap_or(Decision::Undecided(Undecided::InDoubt))
    }

    /// What a stage says about the verdict; none while it says nothing.
    fn ended(&self, asked: &Asked, stage: &Stage) -> Option<Decision> {
        if let Some(proposed) = &stage.proposed {
            return Some(self.verdict(proposed));
        }
        if let Some(problem) = &stage.failed {
            return Some(failed(problem));
        }
        Some(match stage.answer.as_ref()? {
            Answer::Refused { status } => refused(*status),
            Answer::Gone => refused(410),
            Answer::NotHere(Reason::Meaningless) => refused(409),
            Answer::NotHere(_) => Decision::Undecided(Undecided::NotExecuted),
            Answer::Unknown { .. } => return None,
            // It was decided before, and is still kept.
            Answer::Accepted { .. } | Answer::Noted { .. } => self.logged(asked)?,
        })
    }

    fn verdict(&self, proposed: &Proposed) -> Decision {
        match &proposed.proposal {
            Proposal::Refused { status } => refused(*status),
            Proposal::Executed { carried, .. } => self.executed_verdict(&proposed.set, (**carried).clone()),
        }
    }

    fn executed_verdict(&self, set: &MetaId, mut carried: Carried) -> Decision {
        let core = &*self.core;
        let signed = match core.surroundings.identity() {
            Some(identity) => sign::sign(&identity, set, &mut carried.op).map_err(|error| error.to_string()),
            None => Err("this site has no identity in the mesh".to_owned()),
        };
        if let Err(why) = signed {
            error!(%set, why, "an operation of a strong set cannot be signed");
            return Decision::Undecided(Undecided::InDoubt);
        }
        let members = self.members(set);
        if members.is_empty() {
            // Nobody knows who may have the credential.
            return Decision::Undecided(Undecided::InDoubt);
        }
        let made = Made {
            set: set.as_str().to_owned(),
            carried,
        };
        match made.pack(core, &members) {
            Some(content) => Decision::Verdict(Verdict::Executed { content }),
            None => Decision::Undecided(Undecided::InDoubt),
        }
    }

    /// An operation that is in the log of its set already.
    fn logged(&self, asked: &Asked) -> Option<Decision> {
        let Where::Set(meta) = &asked.to else {
            return None;
        };
        let meta = MetaId::new(meta);
        let kept = rows::kept(&self.core.store.read().ok()?, &meta).ok()??;
        let entry = kept.set.log().find(|entry| entry.op.token == asked.draft.token)?;
        let carried = Carried {
            op: entry.op.clone(),
            credential: entry.credential.clone(),
        };
        Some(self.executed_verdict(&meta, carried))
    }

    fn members(&self, set: &MetaId) -> Vec<SiteName> {
        let read = self.core.store.read().ok();
        let head = read.and_then(|read| rows::head(&read, set).ok().flatten());
        head.map(|head| head.sites).unwrap_or_default()
    }

    /// What somebody else has proposed is not taken further than its sites may speak here.
    fn believed(&self, group: &GroupId, mut asked: Asked, is_own: bool) -> Result<Asked, &'static str> {
        let core = &*self.core;
        match &asked.draft.verb {
            Verb::Create(birth) => {
                if birth.consistency.is_eventual() || !is_of(group, &birth.sites) {
                    return Err("it begins no strong set of this group");
                }
                if !is_own && !core.surroundings.access(&birth.service).is_offered {
                    return Err("the service is not offered to other sites");
                }
            }
            verb if !verb.is_for_application() => return Err("it is no write"),
            _ => {
                let Where::Set(meta) = &asked.to else {
                    return Err("it is for no set");
                };
                if !self.is_set_of(group, &MetaId::new(meta)) {
                    return Err("the group has no such set here");
                }
            }
        }
        if !is_own {
            // Who has verified the caller, if anybody, is not told for sure: any of the members may have written the intent.
            asked.draft.request.caller = None;
        }
        asked.draft.promised = false;
        Ok(asked)
    }

    /// Whether a set here is one that the group decides about. A group of other sites has no say in it.
    fn is_set_of(&self, group: &GroupId, set: &MetaId) -> bool {
        let read = self.core.store.read().ok();
        let head = read.and_then(|read| rows::head(&read, set).ok().flatten());
        head.is_some_and(|head| !head.consistency.is_eventual() && is_of(group, &head.sites))
    }

    async fn executed_everywhere(&self, group: &GroupId, intent: &Intent, content: &[u8]) {
        let core = &*self.core;
        let asked = Asked::unpack(core, &intent.content);
        let made = Made::unpack(core, content);
        let (Some(asked), Some(made)) = (asked, made) else {
            return error!(%group, token = %intent.token, "an outcome of a strong set cannot be read: upgrade the older agent");
        };
        let set = MetaId::new(&made.set);
        if let Err(why) = self.objection(group, &asked, &made, &set) {
            return error!(%group, %set, why, "an outcome of a strong set is not taken: its leader says what cannot be");
        }
        let decision = cheops_replica::Decision::Executed(Box::new(made.carried));
        self.tell(&set, decision).await;
    }

    fn objection(&self, group: &GroupId, asked: &Asked, made: &Made, set: &MetaId) -> Result<(), String> {
        let core = &*self.core;
        if !asked.fits(made) {
            return Err("the operation is another one than was asked for".to_owned());
        }
        let op = &made.carried.op;
        let message = alone(set, &made.carried, core.surroundings.now_ms());
        if let Some(nonsense) = message.objection() {
            return Err(nonsense.to_string());
        }
        match &op.verb {
            Verb::Create(birth) => {
                let is_strong = !birth.consistency.is_eventual() && is_of(group, &birth.sites);
                if !is_strong || !birth.sites.contains(&op.id.author.site) || !named::is_rightful(set, birth)
                {
                    return Err("it begins no such set".to_owned());
                }
            }
            // What is unknown here begins elsewhere, and comes by the engine's own means.
            _ if self.is_known(set) == Some(true) && !self.is_set_of(group, set) => {
                return Err("another group decides about the set".to_owned());
            }
            _ => {}
        }
        if op.id.author.site == core.site && op.signature.is_empty() {
            return Ok(());
        }
        let identity = core
            .surroundings
            .identity()
            .ok_or("this site has no identity in the mesh")?;
        let moment = sign::Moment {
            now_ms: core.surroundings.now_ms(),
            // The log may be read again long after it was written, after a start.
            grace_s: u64::MAX / 2_000,
        };
        sign::check(&identity, set, op, moment).map_err(|error| error.to_string())
    }

    async fn refused_everywhere(&self, group: &GroupId, intent: &Intent, status: u16) {
        let Some(asked) = Asked::unpack(&self.core, &intent.content) else {
            return;
        };
        let token = Token(intent.token.0);
        for set in self.candidates(&asked) {
            if !self.is_set_of(group, &set) {
                continue;
            }
            let decision = cheops_replica::Decision::Refused { token, status };
            self.tell(&set, decision).await;
        }
    }

    /// The sets here that a refused write may have been for.
    fn candidates(&self, asked: &Asked) -> Vec<MetaId> {
        let Draft { verb, .. } = &asked.draft;
        match (&asked.to, verb) {
            (Where::Set(meta) | Where::New(meta), _) => {
                vec![MetaId::new(meta)]
            }
            (Where::Named, Verb::Create(birth)) => {
                let Ok(read) = self.core.store.read() else {
                    return Vec::new();
                };
                let mut birth = (**birth).clone();
                let mut found = BTreeSet::new();
                for generation in 0..GENERATIONS_MAX {
                    birth.generation = generation;
                    match named::derive(&birth) {
                        Some(meta) if rows::row(&read, &meta).is_ok_and(|row| row.is_some()) => {
                            found.insert(meta);
                        }
                        _ => break,
                    }
                }
                found.into_iter().collect()
            }
            (Where::Named, _) => Vec::new(),
        }
    }

    /// Tells the engine, until it is durable.
    async fn tell(&self, set: &MetaId, decision: cheops_replica::Decision) {
        loop {
            let (done, durable) = oneshot::channel();
            let input = Input::Decide {
                set: set.clone(),
                decision: Box::new(decision.clone()),
                done,
            };
            if self.core.engine.post(input).is_ok() && matches!(durable.await, Ok(Ok(()))) {
                return;
            }
            if self.core.engine.is_closed() {
                // The agent stops: it is concluded again at the next start.
                return std::future::pending().await;
            }
            sleep(AGAIN).await;
        }
    }
}

/// Whether a group was founded by these sites.
fn is_of<'s>(group: &GroupId, sites: impl IntoIterator<Item = &'s SiteName>) -> bool {
    GroupId::of(&Founding::of(sites.into_iter().cloned())) == *group
}

fn refused(status: u16) -> Decision {
    Decision::Verdict(Verdict::Refused { status })
}

/// The engine did not even begin.
fn failed(problem: &Problem) -> Decision {
    match problem.status() {
        status @ 400..=499 => refused(status),
        _ => Decision::Undecided(Undecided::NotExecuted),
    }
}

/// An operation as its origin would have sent it, to be judged like one that has come so.
fn alone(set: &MetaId, carried: &Carried, now_ms: u64) -> Message {
    let op: &Operation = &carried.op;
    Message {
        set: set.clone(),
        from: op.id.author.site.clone(),
        incarnation: 0,
        epoch: op.epoch,
        now_ms,
        report: Report {
            incarnation: op.id.author.incarnation,
            age: op.age,
            stay: op.id.author.stay,
            held: Vector::new(),
            done: Vector::new(),
            local: None,
            degraded: None,
            left: false,
            ask: false,
            waits: Vec::new(),
            bare: Vec::new(),
        },
        content: Content::Operations(vec![carried.clone()]),
    }
}

#[cfg(test)]
mod tests {
    use cheops_replica::{Birth, Footprint, Recognise, Request};
    use cheops_types::{Caller, Consistency, KeptBody};

    use super::*;
    use crate::lab::{Lab, service, site};

    fn create(sites: &[&str]) -> Asked {
        let birth = Birth {
            service: service("web"),
            kind: "/orders".into(),
            parents: Vec::new(),
            name: None,
            sites: sites.iter().map(|name| site(name)).collect(),
            span: None,
            generation: 0,
            consistency: Consistency::Strong,
        };
        let request = Request {
            method: "POST".into(),
            path: "/orders".into(),
            headers: Vec::new(),
            body: KeptBody::EMPTY,
            scope: String::new(),
            caller: Some(Caller {
                user: "ann".into(),
                groups: Vec::new(),
            }),
            shares: Vec::new(),
        };
        let draft = Draft {
            token: Token(7),
            verb: Verb::Create(Box::new(birth)),
            touches: Footprint::Whole,
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request,
            conditions: None,
            credential: None,
            promised: true,
            remakes: false,
        };
        let to = Where::New("m".into());
        Asked { to, draft }
    }

    fn group(sites: &[&str]) -> GroupId {
        GroupId::of(&Founding::of(sites.iter().map(|name| site(name))))
    }

    /// A member of one group has no say in the sets of another one, whatever it writes into its own log.
    #[tokio::test]
    async fn a_group_decides_about_sets_of_its_own_sites_alone() {
        let lab = Lab::new("here");
        let sets = EngineSets::new(&lab.core);
        let own = group(&["here", "a", "b"]);
        let asked = || create(&["here", "a", "b"]);
        assert!(sets.believed(&own, asked(), true).is_ok());
        assert!(sets.believed(&group(&["here", "x"]), asked(), true).is_err());
        let to_unknown = Asked {
            to: Where::Set("m".into()),
            draft: Draft {
                verb: Verb::Replace,
                ..asked().draft
            },
        };
        assert!(sets.believed(&own, to_unknown, false).is_err());
    }

    /// Whoever has written the intent may have made the caller up.
    #[tokio::test]
    async fn what_others_propose_is_in_no_callers_name() {
        let lab = Lab::new("here");
        let sets = EngineSets::new(&lab.core);
        let own = group(&["here", "a"]);
        let asked = || create(&["here", "a"]);
        let mine = sets.believed(&own, asked(), true).unwrap();
        assert!(mine.draft.request.caller.is_some() && !mine.draft.promised);
        let theirs = sets.believed(&own, asked(), false).unwrap();
        assert!(theirs.draft.request.caller.is_none());
    }
}
