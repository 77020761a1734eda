//! One site's replication, started.

use std::{
    fmt,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use cheops_net::Offload;
use cheops_plan::Presence;
use cheops_replica::{Event, MetaId, Site};
use cheops_store::{
    Error, Incarnation, OpenError, Options as StoreOptions, PayloadRef, Pending, Read, SiteKey, Span, Spool,
    SpoolError, Store,
};
use cheops_types::SiteName;
use tokio::sync::mpsc;

use crate::{
    asks::Asks,
    calls::Calls,
    commit_times::CommitTimes,
    comparisons::Comparisons,
    core::Core,
    engine::Engine,
    fetch::PayloadSets,
    finished::Finished,
    group_asks::{GroupAsks, OwnIntents},
    inbox::{EngineHandle, Input},
    life::{Life, Lives},
    missed::Missed,
    promises::Index,
    rows::{self, Sets, SiteRecord, SiteRow},
    runner::Work,
    spooled::Spooled,
    surroundings::Surroundings,
    verifications::Verifications,
    waiting::Waiting,
};

/// Tasks that wait for the runner; the engine waits with more.
const TASKS_MAX: usize = 4096;

/// What replication at a site is started with.
pub struct Options {
    pub site: SiteName,
    /// An existing directory that no other agent uses.
    pub data: PathBuf,
    /// `data` was restored from a copy, of the whole directory perhaps: other sites know more than it holds.
    pub restored: bool,
    pub key: SiteKey,
    pub surroundings: Arc<dyn Surroundings>,
    /// Filled with everything that is replicated here.
    pub presence: Arc<Presence>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("site", &self.site)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}

/// Why replication cannot start. Nothing was executed or sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("the store cannot be used: {0}")]
    Rows(#[from] Error),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(
        "the data directory belongs to the site `{found}`, not to `{here}`: give each site a directory of its own"
    )]
    OtherSite { found: SiteName, here: SiteName },
    #[error("the engine's thread cannot be started: {0}")]
    Thread(String),
}

/// A cheap handle. The engine ends when all of them are gone, or when one of them stops it.
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) core: Arc<Core>,
    running: Arc<Running>,
}

/// Closes the engine's inbox with the last handle.
#[derive(Debug)]
struct Running {
    engine: EngineHandle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.close();
    }
}

impl Node {
    /// Opens what is stored, makes the data plane know it, and starts the engine. Sets with something left to
    /// do go on by themselves, once [`Work`] has a runner.
    pub fn start(options: Options) -> Result<(Self, Work), StartError> {
        let limits = options.surroundings.limits();
        let store_options = StoreOptions {
            restored: options.restored,
            ..StoreOptions::new(Incarnation(options.surroundings.now_ms()), &limits)
        };
        let store = Store::open(&options.data, &store_options)?;
        Self::over(store, options)
    }

    /// The same over a store that is open already.
    pub(crate) fn over(store: Store, options: Options) -> Result<(Self, Work), StartError> {
        let Options {
            site,
            data,
            key,
            surroundings,
            presence,
            ..
        } = options;
        let limits = surroundings.limits();
        let (spool, recovered) = Spool::open(&data, &store, limits.spool_max_bytes)?;
        for payload in &recovered.missing {
            tracing::warn!(%payload, "a payload is missing and has to come from another site");
        }
        let record = begin_run(&store, &site, start_number(&*surroundings))?;
        announce_all(&store, &presence)?;
        let (engine, inbox) = EngineHandle::new(site.clone(), limits.engine_queue_max);
        let core = Arc::new(Core {
            site,
            store,
            spool,
            key,
            surroundings,
            presence,
            engine: engine.clone(),
            waiting: Waiting::default(),
            finished: Finished::default(),
            spooled: Spooled::default(),
            asks: Asks::default(),
            groups: GroupAsks::default(),
            own_intents: OwnIntents::default(),
            lives: Lives::new(record.lives.clone()),
            calls: Calls::default(),
            commit_times: CommitTimes::default(),
            callers: Verifications::default(),
            comparisons: Comparisons::default(),
            missed: Missed::default(),
            life: Life::new(record.site.clone()),
            fenced: std::sync::atomic::AtomicU64::new(0),
            offload: Offload::default(),
        });
        let (sender, tasks) = mpsc::channel(TASKS_MAX);
        let promises = Index::load(&core)?;
        let thread = Engine::new(Arc::clone(&core), inbox, sender, record, promises);
        let thread = thread::Builder::new()
            .name("replication".into())
            .spawn(move || thread.run())
            .map_err(|error| StartError::Thread(error.to_string()))?;
        tell_missing(&core, &recovered.missing)?;
        let running = Running {
            engine,
            thread: Mutex::new(Some(thread)),
        };
        let work = Work {
            core: Arc::clone(&core),
            tasks,
        };
        let node = Self {
            core,
            running: Arc::new(running),
        };
        Ok((node, work))
    }

    /// A site can be reached again: what it lacks, and what did not get to it, is sent now.
    pub fn peer_up(&self, site: &SiteName) {
        // An agent that stops has nothing more to send.
        let _ = self.core.engine.post(Input::PeerUp(site.clone()));
        self.core.asks.tell_names();
        self.core.comparisons.peer_up(site);
    }

    /// The life of another site's store, as the site itself tells it. One that is new knows nothing of its sets: it
    /// is brought in again.
    pub fn peer_life(&self, site: &SiteName, incarnation: u64) {
        self.core.lives.note(site, incarnation);
        let site = site.clone();
        let _ = self.core.engine.post(Input::PeerLife { site, incarnation });
    }

    /// Waits for the executions under way, takes nothing more, does what is queued, and ends the engine.
    /// Blocks the thread; the runner has to run on, or be gone.
    pub fn stop(&self) {
        let patience = self.core.surroundings.limits().drain_timeout_ms;
        self.core.calls.stop(Duration::from_millis(patience));
        self.running.engine.close();
        let thread = self
            .running
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the replication engine ended by a defect");
        }
    }
}

/// A number that no other start has, small enough for every program that reads numbers.
fn start_number(surroundings: &dyn Surroundings) -> u64 {
    let mut bytes = [0; 8];
    surroundings.fill(&mut bytes);
    u64::from_be_bytes(bytes) >> 11 | 1
}

/// What this site keeps of itself, for one more start.
fn begin_run(store: &Store, here: &SiteName, start: u64) -> Result<SiteRecord, StartError> {
    let Incarnation(incarnation) = store.incarnation();
    let stored = store.read()?.get::<SiteRow>(&())?;
    if let Some(record) = &stored
        && record.site.name() != here
    {
        return Err(StartError::OtherSite {
            found: record.site.name().clone(),
            here: here.clone(),
        });
    }
    let record = match stored {
        Some(record) => SiteRecord {
            run: record.run + 1,
            // The site's own is later where the store was found to have been set back.
            site: {
                let incarnation = incarnation.max(record.site.incarnation());
                record.site.started(start).reborn(incarnation)
            },
            ..record
        },
        None => SiteRecord {
            site: Site::new(here.clone(), incarnation)
                .started(start)
                .reborn(incarnation),
            run: 1,
            commits: 0,
            probes: 0,
            lives: std::collections::BTreeMap::new(),
        },
    };
    let row = record.clone();
    store
        .write(move |session| session.put::<SiteRow>(&(), &row))
        .and_then(Pending::wait)?;
    Ok(record)
}

/// Payloads that a damaged disk has lost do not count as held, and are fetched again.
fn tell_missing(core: &Core, missing: &[PayloadRef]) -> Result<(), Error> {
    let read = core.store.read()?;
    for payload in missing {
        let (hash, is_here) = (payload.hash.into(), false);
        let rows = read.scan::<PayloadSets>(&Span::under(&payload.hash), usize::MAX)?;
        for ((_, set), _) in rows {
            let event = Event::Payload { hash, is_here };
            core.engine.result(&MetaId::new(&set), event);
        }
    }
    Ok(())
}

fn announce_all(store: &Store, presence: &Presence) -> Result<(), Error> {
    store.read()?.for_each::<Sets>(&Span::all(), |meta, row| {
        rows::announce_row(&MetaId::new(&meta), &row, presence);
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests;
