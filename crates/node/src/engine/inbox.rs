//! What waits for the engine.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cheops_replica::{Birth, Draft, Event, LocalId, Message, MetaId, Recognise, Token};
use cheops_types::{Code, Limit, Problem, SiteName};
use tokio::sync::oneshot;

use crate::mint::NewId;

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
    /// A site can be reached again.
    PeerUp(SiteName),
}

impl Input {
    /// Whether a client or an operator waits at this end, who can be told to come again.
    fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Create { .. } | Self::Request { .. } | Self::Adopt { .. } | Self::Tell { .. }
        )
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
    /// How many of them can be refused.
    bounded: usize,
    stopping: bool,
}

/// What the engine is to do next.
pub(super) enum Next {
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
        queue.inputs.push_back(input);
        drop(queue);
        self.inbox.filled.notify_one();
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
    pub(super) fn take(&self, patience: Option<Duration>, max: usize) -> Next {
        let mut queue = self.lock();
        if queue.inputs.is_empty() && !queue.stopping {
            queue = match patience {
                None => self
                    .filled
                    .wait_while(queue, Queue::is_idle)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.filled.wait_timeout_while(queue, patience, Queue::is_idle);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        if !queue.inputs.is_empty() {
            let count = queue.inputs.len().min(max);
            let inputs: Vec<_> = queue.inputs.drain(..count).collect();
            queue.bounded -= inputs.iter().filter(|input| input.is_bounded()).count();
            return Next::Inputs(inputs);
        }
        if queue.stopping { Next::Stop } else { Next::Idle }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().stopping
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that panics runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn is_idle(&mut self) -> bool {
        self.inputs.is_empty() && !self.stopping
    }
}
