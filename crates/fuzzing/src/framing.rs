//! HTTP/1.1 through a whole agent: does its service read what the client meant.
//!
//! A stream of requests, most of them a little wrong, is sent on one connection. [`strict`] says which requests are in
//! it: those before the first place that can be read in two ways. The service behind the agent reads as strictly. What it
//! sees must be among these requests, in their order and at most once, with the same body; what is not was smuggled.
//!
//! ```text
//!   client ── bytes ──▶ agent ── requests ──▶ service
//!     └─ strict::read(bytes) = meant ⊇ in order seen ─┘
//! ```

mod agent;
mod client;
mod compose;
mod ledger;
mod service;
mod strict;

use std::{
    collections::VecDeque,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use self::{agent::Agent, client::Client, compose::Composer, ledger::Ledger, service::Service};
use crate::{Budget, Finding, Hunted, shrink};

/// Connections at the same time. Most of the time of one is spent waiting.
const CLIENTS: u64 = 4;
/// Inputs of a client between two clean requests.
const CLEAN_EVERY: u64 = 25;
const SHRINK_MAX: Duration = Duration::from_secs(30);
/// Streams among which the one is looked for that a finding came of: the service sees a request when its client may
/// already be at the next stream.
const RECENT: usize = 256;

/// An agent, the service behind it, and what was meant and seen.
struct World {
    agent: Mutex<Agent>,
    ledger: Arc<Ledger>,
    client: Client,
}

impl World {
    fn start(program: &Path) -> Result<Self> {
        let ledger = Arc::new(Ledger::default());
        let service = Service::start(&ledger).context("the service cannot be started")?;
        let agent = Agent::start(program, service.addr())?;
        let client = Client::new(agent.addr());
        let agent = Mutex::new(agent);
        let world = Self {
            agent,
            ledger,
            client,
        };
        world
            .client
            .clean(Duration::from_secs(30))
            .map_err(anyhow::Error::msg)?;
        Ok(world)
    }

    /// Sends one input; what is wrong, if something is. Whether a request of it was answered well.
    fn send(&self, input: &[u8]) -> Result<bool, Finding> {
        let (meant, rest) = strict::read(input);
        let complete = meant.iter().filter(|request| request.is_complete).count();
        // What cannot be read is to be refused, or at least not to be taken: one answer more is waited for.
        let wanted = complete + usize::from(!rest.is_empty());
        let is_whole = meant.iter().all(|request| request.is_complete);
        let number = self.ledger.mean(meant);
        let answered = self.client.exchange(input, wanted, is_whole);
        self.ledger.forget_before(number.saturating_sub(512));
        match self.ledger.take_finding() {
            Some(finding) => Err(Finding::Broken(finding)),
            None => Ok(answered > 0),
        }
    }

    /// The agent is there, and answers others.
    fn check(&self) -> Result<(), Finding> {
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = agent.end() {
            return Err(Finding::Broken(format!("the agent ended: {end}")));
        }
        drop(agent);
        let clean = self.client.clean(Duration::from_secs(10));
        clean.map_err(|error| Finding::Broken(format!("a clean request is not answered: {error}")))
    }

    /// One input from beginning to end.
    fn look(&self, input: &[u8]) -> Result<bool, Finding> {
        let answered = self.send(input)?;
        self.check()?;
        self.ledger
            .take_finding()
            .map_or(Ok(answered), |finding| Err(Finding::Broken(finding)))
    }
}

/// Sends inputs until the budget is spent or something is found.
pub fn hunt(
    program: &Path,
    seeds: &[Vec<u8>],
    seed: u64,
    budget: Budget,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Hunted> {
    let begin = Instant::now();
    let world = World::start(program)?;
    let (next, read) = (AtomicU64::new(0), AtomicU64::new(0));
    let found: Mutex<Option<Finding>> = Mutex::new(None);
    let recent: Mutex<VecDeque<Vec<u8>>> = Mutex::default();
    let work = |client: u64| {
        let mut composer = Composer::new(seed ^ (client << 56), seeds);
        for turn in 1.. {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_over = found.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if is_over || number >= budget.executions || begin.elapsed() >= budget.time {
                next.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            let input = composer.stream();
            let mut latest = recent.lock().unwrap_or_else(PoisonError::into_inner);
            latest.push_front(input.clone());
            latest.truncate(RECENT);
            drop(latest);
            let mut looked = world.send(&input);
            if turn % CLEAN_EVERY == 0 {
                looked = looked.and_then(|answered| world.check().map(|()| answered));
                tell(number);
            }
            match looked {
                Ok(answered) => _ = read.fetch_add(u64::from(answered), Ordering::Relaxed),
                Err(finding) => {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.get_or_insert(finding);
                    return;
                }
            }
        }
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let work = &work;
            scope.spawn(move || work(client));
        }
    });
    if let Err(finding) = world.check() {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get_or_insert(finding);
    }
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let recent = recent.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Hunted {
        executions: next.load(Ordering::Relaxed),
        read: read.load(Ordering::Relaxed),
        took: begin.elapsed(),
        finding: found.map(|finding| smallest(program, finding, &recent)),
    })
}

/// Sends one input to an agent of its own; what is wrong, if something is.
pub fn replay(program: &Path, input: &[u8]) -> Result<Option<Finding>> {
    Ok(World::start(program)?.look(input).err())
}

/// The stream that a finding came of, as small as it still does the same to an agent of its own. Nothing where none does
/// it alone.
fn smallest(program: &Path, finding: Finding, recent: &VecDeque<Vec<u8>>) -> (Finding, Vec<u8>) {
    let again = |input: &[u8]| {
        let world = World::start(program).ok()?;
        world.look(input).err().filter(|other| other.is_like(&finding))
    };
    let Some(input) = recent.iter().find(|input| again(input).is_some()) else {
        // It takes others beside it: at least the stream that has the request.
        let text = finding.to_string();
        let mark = text
            .split(['/', '`', '?', '%'])
            .find(|part| part.starts_with('m'))
            .unwrap_or_default();
        let has_mark = |input: &&Vec<u8>| {
            input
                .windows(mark.len().max(1))
                .any(|part| part == mark.as_bytes())
        };
        return (finding, recent.iter().find(has_mark).cloned().unwrap_or_default());
    };
    let small = shrink(input, SHRINK_MAX, |input| again(input).is_some());
    (again(&small).unwrap_or(finding), small)
}
