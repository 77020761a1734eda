//! The engine's thread: the only writer of what this site knows of its replica sets.
//!
//! Everything that waits is worked off as one batch with one commit. Only after it are callers answered and
//! is anything asked of the application or of another site, in the order in which it came up. A batch whose
//! commit fails has not happened: callers are told, messages come again, and what became of executions is
//! kept until it can be stored.

mod batch;
mod cache;
mod change;
mod guard;
mod release;
mod rules;
mod sweep;
mod timers;
mod watches;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use cheops_replica::{Event, MetaId, Tuning};
use cheops_store::{Error, Pending, Read as _};
use tokio::sync::mpsc;

pub(crate) use self::change::LoadedSet;
pub use self::guard::is_guarded;
use self::{batch::Batch, cache::Cache, sweep::Sweep, timers::Timers, watches::Watches};
use crate::{
    core::Core,
    inbox::{Busy, Inbox, Input, Next},
    promises::Index,
    rows::{SiteRecord, SiteRow},
    task::Task,
};

/// Decoded sets that stay in memory.
const CACHE_SETS: usize = 2048;
/// Inputs that share a commit; further ones wait for the next.
const BATCH_MAX: usize = 1024;
/// Pause after a commit that failed; it doubles with each.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Engine {
    core: Arc<Core>,
    inbox: Arc<Inbox>,
    tasks: mpsc::Sender<Task>,
    record: SiteRecord,
    cache: Cache,
    timers: Timers,
    watches: Watches,
    promises: Index,
    /// Sets that another one has moved for.
    woken: BTreeSet<MetaId>,
    sweeps: VecDeque<Sweep>,
    /// What became of executions, and could not be stored yet.
    unstored: Vec<(MetaId, Event)>,
    failures: u32,
    retry_at: Option<Instant>,
}

impl Engine {
    pub(crate) fn new(
        core: Arc<Core>,
        inbox: Arc<Inbox>,
        tasks: mpsc::Sender<Task>,
        record: SiteRecord,
        promises: Index,
    ) -> Self {
        Self {
            core,
            inbox,
            tasks,
            record,
            cache: Cache::new(CACHE_SETS),
            timers: Timers::default(),
            watches: Watches::default(),
            promises,
            woken: BTreeSet::new(),
            sweeps: VecDeque::from([Sweep::resume()]),
            unstored: Vec::new(),
            failures: 0,
            retry_at: None,
        }
    }

    /// Ends when the inbox is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            let inputs = match self.inbox.take(self.patience(), BATCH_MAX) {
                Next::Inputs(inputs) => inputs,
                Next::Idle => Vec::new(),
                Next::Stop => return,
            };
            self.work(inputs);
        }
    }

    fn work(&mut self, inputs: Vec<Input>) {
        let limits = self.core.surroundings.limits();
        let tuning = Tuning::from(&limits);
        let mut batch = match Batch::begin(self, &tuning) {
            Ok(batch) => batch,
            Err(error) => return self.refuse(inputs, &error),
        };
        batch.unstored();
        for input in inputs {
            batch.take(input);
        }
        batch.wake();
        batch.sweep();
        let ended = batch.end();
        self.commit(ended);
        self.tell_watches();
        self.cache.trim();
    }

    /// How long there is nothing to do but to wait.
    fn patience(&self) -> Option<Duration> {
        let has_more = !self.woken.is_empty() || !self.sweeps.is_empty();
        if has_more && self.is_retry_due() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let retry = self.retry_at.map(|at| at.saturating_duration_since(now));
        let timer = self.timers.patience(self.core.surroundings.now_ms());
        [retry, timer].into_iter().flatten().min()
    }

    /// Whether the pause after a failure is over.
    fn is_retry_due(&self) -> bool {
        self.retry_at.is_none_or(|at| at <= Instant::now())
    }

    /// Lets the store recover before it is asked for more than it must be.
    fn pause(&mut self) {
        let pause = RETRY_MIN
            .saturating_mul(1 << self.failures.min(16))
            .min(RETRY_MAX);
        self.failures += 1;
        self.retry_at = Some(Instant::now() + pause);
    }

    /// Whether a commit is durable that ended without a word about it: a later one that succeeds decides.
    fn find_out(&self, commits: u64) -> bool {
        let mut pause = RETRY_MIN;
        while !self.inbox.is_closed() {
            let found = self.core.store.write(|session| {
                let Some(mut row) = session.get::<SiteRow>(&())? else {
                    return Ok(0);
                };
                row.probes += 1;
                session.put::<SiteRow>(&(), &row)?;
                Ok(row.commits)
            });
            match found.and_then(Pending::wait) {
                Ok(found) => return found == commits,
                Err(Error::Closed) => return false,
                Err(error) => tracing::error!(%error, "the store cannot be written"),
            }
            thread::sleep(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
        false
    }
}
