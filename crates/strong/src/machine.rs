//! The state of a group for openraft: applies what is committed and has the outcomes concluded.
//!
//! An entry is applied only when the outcome in it was concluded, durably. So a snapshot never covers
//! an outcome that this site could forget, and whoever waits until an entry is applied here knows that
//! the sets of this site know its outcome:
//!
//! ```text
//! committed     o1(x)  i2(y)  o3(x)
//! concluded     o1(x) ───── then o3(x)      of one set one after another, sets side by side
//! applied       ................... all three, their proposers are answered
//! ```

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    io,
    rc::Rc,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::join_all};
use openraft::{
    EntryPayload, OptionalSend, RaftSnapshotBuilder,
    storage::{EntryResponder, RaftStateMachine},
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot};

use crate::{
    codec,
    command::{Command, Intent, Token, Verdict},
    disk::Disk,
    flaws::Flaws,
    founding::GroupId,
    sets::Sets,
    state::{Effect, Saved, State},
    types::{Applied, LogId, Snapshot, SnapshotMeta, StoredMembership, Types},
};

/// How many entries are applied together at most: proposers wait for all of them.
const BATCH_MAX: usize = 64;

/// A handle of the state of a group at this site.
#[derive(Clone)]
pub(crate) struct Machine(Rc<Inner>);

struct Inner {
    group: GroupId,
    disk: Rc<dyn Disk>,
    sets: Rc<dyn Sets>,
    state: RefCell<State>,
    applied: Cell<Option<LogId>>,
    membership: RefCell<StoredMembership>,
    snapshot: RefCell<Option<(SnapshotMeta, Bytes)>>,
    /// Open intents that this site may have executed, until their outcome is concluded.
    touched: RefCell<BTreeMap<Token, String>>,
    /// An intent up to here may have been executed before the last restart, which nobody remembers.
    suspect_upto: Option<u64>,
    waiting: RefCell<BTreeMap<Token, Vec<oneshot::Sender<Verdict>>>>,
    /// Something was applied.
    changed: Notify,
    opened: RefCell<Vec<Intent>>,
    flaws: Flaws,
    closed: RefCell<BTreeMap<Token, Intent>>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    meta: SnapshotMeta,
    state: Saved,
}

impl Machine {
    /// `last_index` is where the log ended when it was loaded.
    pub(crate) fn new(
        group: GroupId,
        disk: Rc<dyn Disk>,
        sets: Rc<dyn Sets>,
        snapshot: Option<&Bytes>,
        last_index: Option<u64>,
        flaws: Flaws,
    ) -> io::Result<Self> {
        let machine = Self(Rc::new(Inner {
            group,
            disk,
            sets,
            state: RefCell::default(),
            applied: Cell::default(),
            membership: RefCell::default(),
            snapshot: RefCell::default(),
            touched: RefCell::default(),
            suspect_upto: last_index,
            waiting: RefCell::default(),
            changed: Notify::new(),
            opened: RefCell::default(),
            flaws,
            closed: RefCell::default(),
        }));
        if let Some(bytes) = snapshot {
            machine.take_over(bytes)?;
        }
        Ok(machine)
    }

    /// Goes on from a snapshot. What it has open may have been executed here, for all that is known.
    fn take_over(&self, bytes: &Bytes) -> io::Result<()> {
        let kept: Kept = codec::read(bytes)?;
        let state = State::restore(kept.state);
        let open = state
            .open_intents()
            .map(|(_, intent)| (intent.token, intent.set.clone()));
        self.0.touched.replace(open.collect());
        self.0
            .waiting
            .borrow_mut()
            .retain(|token, _| state.is_open(*token));
        self.0.state.replace(state);
        self.0.applied.set(kept.meta.last_log_id);
        self.0.membership.replace(kept.meta.last_membership.clone());
        self.0.snapshot.replace(Some((kept.meta, bytes.clone())));
        self.0.changed.notify_waiters();
        Ok(())
    }

    pub(crate) fn applied(&self) -> Option<LogId> {
        self.0.applied.get()
    }

    pub(crate) fn snapshot_index(&self) -> Option<u64> {
        let snapshot = self.0.snapshot.borrow();
        snapshot
            .as_ref()
            .and_then(|(meta, _)| Some(meta.last_log_id?.index))
    }

    pub(crate) fn first_open(&self, set: &str) -> Option<Intent> {
        self.0.state.borrow().first_open(set).cloned()
    }

    pub(crate) fn is_open(&self, token: Token) -> bool {
        self.0.state.borrow().is_open(token)
    }

    pub(crate) fn open_sets(&self) -> BTreeSet<String> {
        self.0.state.borrow().open_sets().cloned().collect()
    }

    pub(crate) fn open_len(&self) -> usize {
        self.0.state.borrow().open_len()
    }

    /// The intents that were opened since it was asked last.
    pub(crate) fn take_opened(&self) -> Vec<Intent> {
        self.0.opened.take()
    }

    /// This site is about to execute an open intent.
    pub(crate) fn touch(&self, intent: &Intent) {
        self.0
            .touched
            .borrow_mut()
            .insert(intent.token, intent.set.clone());
    }

    /// Whether this site may have executed something of a set whose outcome it does not know yet.
    pub(crate) fn is_touched(&self, set: &str) -> bool {
        self.0.touched.borrow().values().any(|touched| touched == set)
    }

    /// Ends when something was applied after the call.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.0.changed.notified()
    }

    /// Tells the outcome of an intent when it is concluded here.
    pub(crate) fn outcome(&self, token: Token) -> oneshot::Receiver<Verdict> {
        let (promise, outcome) = oneshot::channel();
        let mut waiting = self.0.waiting.borrow_mut();
        // Callers that gave up leave theirs behind.
        waiting.retain(|_, promises| {
            promises.retain(|promise| !promise.is_closed());
            !promises.is_empty()
        });
        waiting.entry(token).or_default().push(promise);
        outcome
    }

    fn step(&self, index: u64, command: Command) -> Effect {
        let mut state = self.0.state.borrow_mut();
        if self.0.flaws.later_outcome_counts {
            state.apply_flawed(index, command, &mut self.0.closed.borrow_mut())
        } else {
            state.apply(index, command)
        }
    }

    fn after(&self, index: u64, effect: &Effect, intent: Option<Intent>) -> Applied {
        match effect {
            Effect::Opened => {
                if let Some(intent) = intent {
                    if Some(index) <= self.0.suspect_upto {
                        self.touch(&intent);
                    }
                    let mut opened = self.0.opened.borrow_mut();
                    opened.push(intent);
                    let surplus = opened.len().saturating_sub(crate::tuning::FOLLOW_WRITES);
                    opened.drain(..surplus);
                }
                Applied::Opened
            }
            Effect::AlreadyOpen => Applied::AlreadyOpen,
            Effect::AlreadyDecided => Applied::AlreadyDecided,
            Effect::Closed(..) => Applied::Closed,
            Effect::Unknown => Applied::Unknown,
        }
    }

    /// Has outcomes concluded, those of one set one after another.
    async fn conclude(&self, closed: Vec<(Intent, Verdict)>) {
        let mut by_set: BTreeMap<&str, Vec<(&Intent, &Verdict)>> = BTreeMap::new();
        for (intent, verdict) in &closed {
            by_set.entry(&intent.set).or_default().push((intent, verdict));
        }
        join_all(by_set.into_values().map(async |outcomes| {
            for (intent, verdict) in outcomes {
                self.0.sets.conclude(&self.0.group, intent, verdict).await;
                self.0.touched.borrow_mut().remove(&intent.token);
            }
        }))
        .await;
        for (intent, verdict) in closed {
            for promise in self
                .0
                .waiting
                .borrow_mut()
                .remove(&intent.token)
                .unwrap_or_default()
            {
                // Whoever waited may have given up.
                let _ = promise.send(verdict.clone());
            }
        }
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.0.applied.get(), self.0.membership.borrow().clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        let mut is_over = false;
        while !is_over {
            let (mut closed, mut answers, mut last) = (Vec::new(), Vec::new(), None);
            while answers.len() < BATCH_MAX {
                let Some(item) = entries.next().await else {
                    is_over = true;
                    break;
                };
                let (entry, responder) = item?;
                let index = entry.log_id.index;
                last = Some(entry.log_id);
                let answer = match entry.payload {
                    EntryPayload::Blank => Applied::Nothing,
                    EntryPayload::Membership(membership) => {
                        let stored = StoredMembership::new(Some(entry.log_id), membership);
                        self.0.membership.replace(stored);
                        Applied::Nothing
                    }
                    EntryPayload::Normal(command) => {
                        let intent = match &command {
                            Command::Intent(intent) => Some(intent.clone()),
                            Command::Outcome { .. } => None,
                        };
                        let effect = self.step(index, command);
                        let answer = self.after(index, &effect, intent);
                        if let Effect::Closed(intent, verdict) = effect {
                            closed.push((intent, verdict));
                        }
                        answer
                    }
                };
                answers.push((responder, answer));
            }
            self.conclude(closed).await;
            if last.is_some() {
                self.0.applied.set(last);
            }
            for (responder, answer) in answers {
                if let Some(responder) = responder {
                    responder.send(answer);
                }
            }
            self.0.changed.notify_waiters();
        }
        Ok(())
    }

    /// Called between two batches, when the state is that after the last applied entry. What is built
    /// later, beside further batches, is what was so now.
    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            machine: self.clone(),
            kept: Kept {
                meta: SnapshotMeta {
                    last_log_id: self.0.applied.get(),
                    last_membership: self.0.membership.borrow().clone(),
                },
                state: self.0.state.borrow().save(),
            },
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> io::Result<()> {
        let kept: Kept = codec::read(&snapshot)?;
        if kept.meta != *meta {
            return Err(io::Error::other("a snapshot is not what it says it is"));
        }
        // The sets first: a crash between the two has them ask others once more for nothing.
        self.0.sets.skipped(&self.0.group).await;
        self.0.disk.save_snapshot(snapshot.clone()).await?;
        self.take_over(&snapshot)
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let snapshot = self.0.snapshot.borrow().clone();
        Ok(snapshot.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// A snapshot on its way to the disk.
pub(crate) struct Builder {
    machine: Machine,
    kept: Kept,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let meta = self.kept.meta.clone();
        let snapshot = codec::write(&self.kept);
        let inner = &self.machine.0;
        // One from the leader may have come meanwhile, and an older one must not follow it.
        if let Some((meta, snapshot)) = inner.snapshot.borrow().clone()
            && meta.last_log_id >= self.kept.meta.last_log_id
        {
            return Ok(Snapshot { meta, snapshot });
        }
        let durable = inner.disk.save_snapshot(snapshot.clone());
        inner.snapshot.replace(Some((meta.clone(), snapshot.clone())));
        durable.await?;
        Ok(Snapshot { meta, snapshot })
    }
}

/// What a snapshot says of itself, to compare it with what its sender said.
pub(crate) fn snapshot_meta(snapshot: &Bytes) -> io::Result<SnapshotMeta> {
    codec::read::<Kept>(snapshot).map(|kept| kept.meta)
}
