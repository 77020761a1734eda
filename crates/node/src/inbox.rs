//! What waits for the engine.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use cheops_replica::{
    Birth, Content, Decision, Draft, Event, Hello, LocalId, Message, MetaId, Recognise, Token, Welcome,
};
use cheops_types::{Code, Limit, Problem, SiteName};
use tokio::sync::oneshot;

use crate::mint::NewId;

/// How long the reports of other sites wait for something to share a commit with, once the engine could take
/// them. Nobody's answer depends on them, and a commit of their own would hold up the next caller's.
const REPORTS_WAIT: Duration = Duration::from_millis(10);

/// More inputs than this mean that the engine has enough to do.
const BUSY_INPUTS: usize = 64;

/// Something for the engine to do.
pub(crate) enum Input {
    /// A new set begins with its create. The caller is registered under the draft's token.
    Create { id: NewId, draft: Box<Draft> },
    /// A write to a set that is known here, or an operation of the set itself. The caller is registered
    /// under the draft's token.
    Request { set: MetaId, draft: Box<Draft> },
    /// A resource that is already here becomes a set of this site alone. Answered under the token.
    Adopt {
        id: NewId,
        birth: Box<Birth>,
        local: LocalId,
        token: Token,
        /// How the creates of the other sites are recognised.
        recognise: Recognise,
    },
    /// What became of a task. Kept until it is durable: an execution must not be forgotten.
    Result { set: MetaId, event: Event },
    /// What an operator wants. `done` hears when it is durable.
    Tell {
        set: MetaId,
        event: Event,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// What the agent of another site sent, already verified and sealed with this site's key. `done` hears
    /// when it is durable; what fails is sent again by the other site.
    Receive {
        messages: Vec<Message>,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// The group of a strong set has decided a write. `done` hears when that is durable here.
    Decide {
        set: MetaId,
        decision: Box<Decision>,
        done: oneshot::Sender<Result<(), Problem>>,
    },
    /// `done` hears when this site has executed everything that was decided about a set; nobody else has touched it then.
    Watch { set: MetaId, done: oneshot::Sender<()> },
    /// A site can be reached again.
    PeerUp(SiteName),
    /// A site told which life of its store this is.
    PeerLife { site: SiteName, incarnation: u64 },
    /// A site that has started asks how old its store was.
    Hello {
        from: SiteName,
        hello: Hello,
        done: oneshot::Sender<Welcome>,
    },
    /// The answer to this site's own hello.
    Welcomed { from: SiteName, welcome: Welcome },
}

impl Input {
    /// Whether a client or an operator waits at this end, who can be told to come again.
    fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Create { .. } | Self::Request { .. } | Self::Adopt { .. } | Self::Tell { .. }
        )
    }

    /// Whether it only says how far other sites are.
    fn has_time(&self) -> bool {
        let is_report = |message: &Message| matches!(message.content, Content::Report);
        matches!(self, Self::Receive { messages, .. } if messages.iter().all(is_report))
    }
}

/// The engine has too much to do. Nothing of the input happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    Full {
        queue_max: usize,
    },
    /// The agent stops.
    Stopped,
}

impl Busy {
    pub(crate) fn problem(self, site: &SiteName) -> Problem {
        let (code, detail) = match self {
            Self::Full { queue_max } => (
                Code::StoreBusy,
                format!("{queue_max} writes wait for replication at `{site}` already: try again later"),
            ),
            Self::Stopped => (
                Code::ShuttingDown,
                format!("the agent of `{site}` stops: try again later, or through another site"),
            ),
        };
        Problem::new(code, detail).at(site)
    }
}

/// The way to the engine. Posting never waits.
#[derive(Clone)]
pub(crate) struct EngineHandle {
    site: SiteName,
    inbox: Arc<Inbox>,
}

impl fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineHandle")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

/// The engine's end.
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    filled: Condvar,
    queue_max: usize,
}

#[derive(Default)]
struct Queue {
    inputs: VecDeque<Input>,
    /// Since when there is something that has time, and nothing else.
    reports_since: Option<Instant>,
    /// How many of them can be refused.
    bounded: usize,
    stopping: bool,
}

/// What the engine is to do next.
pub(crate) enum Next {
    Inputs(Vec<Input>),
    /// Nothing came in time.
    Idle,
    /// The agent stops, and nothing is left.
    Stop,
}

impl EngineHandle {
    pub(crate) fn new(site: SiteName, queue_max: usize) -> (Self, Arc<Inbox>) {
        let inbox = Arc::new(Inbox {
            queue: Mutex::default(),
            filled: Condvar::new(),
            queue_max,
        });
        let handle = Self {
            site,
            inbox: Arc::clone(&inbox),
        };
        (handle, inbox)
    }

    /// Queues an input. Only what a client or an operator wants is ever refused, but for the end.
    pub(crate) fn post(&self, input: Input) -> Result<(), Busy> {
        let mut queue = self.inbox.lock();
        if queue.stopping {
            return Err(Busy::Stopped);
        }
        if input.is_bounded() {
            if queue.bounded >= self.inbox.queue_max {
                Limit::EngineQueue.hit();
                return Err(Busy::Full {
                    queue_max: self.inbox.queue_max,
                });
            }
            queue.bounded += 1;
        }
        let wakes = queue.push(input);
        drop(queue);
        if wakes {
            self.inbox.filled.notify_one();
        }
        Ok(())
    }

    /// What became of a task.
    pub(crate) fn result(&self, set: &MetaId, event: Event) {
        let set = set.clone();
        // At the end the store still says that it is under way: the next start finds out.
        let _ = self.post(Input::Result { set, event });
    }

    /// What an operator wants; returns when it is durable.
    pub(crate) async fn tell(&self, set: &MetaId, event: Event) -> Result<(), Problem> {
        let set = set.clone();
        self.ask(|done| Input::Tell { set, event, done }).await
    }

    /// The same event for many sets; returns when all of it is durable, or has failed. What failed comes again with
    /// the next round of whoever asks.
    pub(crate) async fn tell_each(&self, sets: Vec<MetaId>, event: &Event) {
        let mut outcomes = Vec::with_capacity(sets.len());
        for set in sets {
            let (done, outcome) = oneshot::channel();
            let event = event.clone();
            if self.post(Input::Tell { set, event, done }).is_err() {
                break;
            }
            outcomes.push(outcome);
        }
        for outcome in outcomes {
            let _ = outcome.await;
        }
    }

    /// Whether the agent stops.
    pub(crate) fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Whether so much waits that what nobody asked for should not come on top.
    pub(crate) fn is_busy(&self) -> bool {
        self.inbox.lock().inputs.len() > BUSY_INPUTS
    }

    /// What another site sent; returns when it is durable.
    pub(crate) async fn receive(&self, messages: Vec<Message>) -> Result<(), Problem> {
        self.ask(|done| Input::Receive { messages, done }).await
    }

    async fn ask(
        &self,
        input: impl FnOnce(oneshot::Sender<Result<(), Problem>>) -> Input,
    ) -> Result<(), Problem> {
        let (done, outcome) = oneshot::channel();
        self.post(input(done)).map_err(|busy| busy.problem(&self.site))?;
        outcome
            .await
            .unwrap_or_else(|_| Err(Busy::Stopped.problem(&self.site)))
    }

    /// Refuses everything from now on; what is queued is still done.
    pub(crate) fn close(&self) {
        self.inbox.lock().stopping = true;
        self.inbox.filled.notify_all();
    }
}

impl Inbox {
    /// What waits, at most so much, or the first thing that comes within `patience`.
    pub(crate) fn take(&self, patience: Option<Duration>, max: usize) -> Next {
        let begin = Instant::now();
        let until = patience.map(|patience| begin + patience);
        let mut queue = self.lock();
        while queue.is_idle() {
            let reports_due = queue.reports_since.map(|since| since.max(begin) + REPORTS_WAIT);
            let due = [until, reports_due].into_iter().flatten().min();
            queue = match due.map(|due| due.saturating_duration_since(Instant::now())) {
                None => self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(rest) => {
                    let waited = self.filled.wait_timeout(queue, rest);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if !queue.inputs.is_empty() {
            let count = queue.inputs.len().min(max);
            let inputs: Vec<_> = queue.inputs.drain(..count).collect();
            queue.bounded -= inputs.iter().filter(|input| input.is_bounded()).count();
            // What is left has waited for long enough.
            queue.reports_since = None;
            return Next::Inputs(inputs);
        }
        if queue.stopping { Next::Stop } else { Next::Idle }
    }

    pub(crate) fn queue_max(&self) -> usize {
        self.queue_max
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().stopping
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that panics runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Whether the engine has to be woken.
    fn push(&mut self, input: Input) -> bool {
        let is_first = self.inputs.is_empty();
        if !input.has_time() {
            self.reports_since = None;
        } else if is_first {
            self.reports_since = Some(Instant::now());
        }
        self.inputs.push_back(input);
        is_first || self.reports_since.is_none()
    }

    /// Whether there is nothing to do yet.
    fn is_idle(&self) -> bool {
        !self.stopping && (self.inputs.is_empty() || self.reports_since.is_some())
    }
}

#[cfg(test)]
mod tests;
