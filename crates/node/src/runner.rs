//! What the engine wants done outside: requests to this site's application, messages to the other sites.

mod asks;
mod bring;
mod call;
mod divide;
mod execute;
mod ids;
mod lawful;
mod look;
mod read;
mod recast;
mod render;
mod speak;
#[cfg(test)]
mod tests;

use std::{rc::Rc, sync::Arc, time::Duration};

use cheops_ports::{Application, Peers};
use cheops_replica::{Attempt, Event};
use tokio::{
    sync::{Semaphore, mpsc},
    task::{JoinHandle, spawn_blocking, spawn_local},
    time::{MissedTickBehavior, interval},
};
use tracing::warn;

pub(crate) use recast::Same;

use crate::{
    asks::Ask,
    core::Core,
    fetch::Fetcher,
    names,
    task::{Call, Task, What},
    upkeep,
    wire::Outboxes,
};
use bring::Bringing;
use execute::Broken;
use read::Replica;
use speak::OwnToken;

/// How often payloads that nobody needs any more are removed.
const SWEEP: Duration = Duration::from_secs(30);

/// What the engine wants done, for the runner.
#[derive(Debug)]
pub struct Work {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: mpsc::Receiver<Task>,
}

/// Carries out the engine's tasks on the control runtime, and tells it what became of them.
///
/// A write that a caller waits for goes to the application at once. Of all other calls there are at most
/// `replay_inflight_max` under way, so that catching up after a cut does not take the application from its
/// users.
pub struct Runner {
    hands: Rc<Hands>,
    tasks: mpsc::Receiver<Task>,
    asks: mpsc::Receiver<Ask>,
}

/// A task that ends with its owner.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What every task needs.
struct Hands {
    core: Arc<Core>,
    application: Rc<dyn Application>,
    peers: Rc<dyn Peers>,
    fetcher: Fetcher,
    outboxes: Outboxes,
    places: Semaphore,
    own_token: OwnToken,
    bringing: Bringing,
}

impl Runner {
    pub fn new(work: Work, application: Rc<dyn Application>, peers: Rc<dyn Peers>) -> Self {
        let Work { core, tasks } = work;
        let asks = core.asks.attach();
        let places = Semaphore::new(core.surroundings.limits().replay_inflight_max.max(1));
        let hands = Hands {
            fetcher: Fetcher::new(Arc::clone(&core), Rc::clone(&peers)),
            outboxes: Outboxes::new(Arc::clone(&core), Rc::clone(&peers)),
            places,
            own_token: OwnToken::default(),
            bringing: Bringing::default(),
            core,
            application,
            peers,
        };
        Self {
            hands: Rc::new(hands),
            tasks,
            asks,
        }
    }

    /// Runs until the engine ends. Within a `LocalSet`.
    pub async fn run(mut self) {
        let hands = Rc::clone(&self.hands);
        let has_calls = move || hands.places.available_permits() == 0;
        let (core, peers) = (Arc::clone(&self.hands.core), Rc::clone(&self.hands.peers));
        let _upkeep = Ending(spawn_local(upkeep::run(core, peers, has_calls)));
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                task = self.tasks.recv() => match task {
                    Some(task) => self.begin(task),
                    None => return,
                },
                Some(ask) = self.asks.recv() => {
                    spawn_local(asks::answer(Rc::clone(&self.hands), ask));
                }
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// Never waits: the next task may be for somebody who does.
    fn begin(&self, task: Task) {
        let hands = Rc::clone(&self.hands);
        let call = match task {
            Task::Send { to, message } => return hands.outboxes.send(&to, *message),
            Task::Fetch { set, payload } => return drop(spawn_local(hands.bring(set, payload))),
            Task::Call(call) => *call,
        };
        let Call {
            set,
            others,
            stand_in,
            what,
        } = call;
        match what {
            What::Execute(execution) => {
                let under_way = hands.core.calls.begin();
                spawn_local(async move {
                    let ticket = execution.ticket;
                    let attempt = match &under_way {
                        Some(_) => hands.execute(&set, &others, &stand_in, execution).await,
                        None => Ok(Attempt::NotSent),
                    };
                    let event = match attempt {
                        Ok(attempt) => Event::Executed { ticket, attempt },
                        Err(Broken) => Event::Broken {
                            ticket,
                            settle_ms: hands.core.surroundings.limits().doubt_broken_ms,
                        },
                    };
                    hands.core.engine.result(&set.meta, event);
                });
            }
            What::Look { ticket, token } => {
                spawn_local(async move {
                    let found = hands.look(&set, &stand_in, token).await;
                    let event = Event::Looked { ticket, found };
                    hands.core.engine.result(&set.meta, event);
                });
            }
            What::Read { ticket, local } => {
                spawn_local(async move {
                    let event = match hands.read(&set, &local, &stand_in).await {
                        Replica::Here(state, digest) => Event::Read {
                            ticket,
                            state: Some((state, digest)),
                        },
                        Replica::Missing => Event::Missing { ticket },
                        Replica::Unknown => Event::Read { ticket, state: None },
                    };
                    hands.core.engine.result(&set.meta, event);
                });
            }
        }
    }

    fn sweep(&self) {
        let hands = Rc::clone(&self.hands);
        spawn_local(async move {
            hands.fetcher.tidy().await;
            names::tell_unasked(&hands.core).await;
        });
        self.hands.core.spooled.sweep();
        let spool = self.hands.core.spool.clone();
        spawn_blocking(move || {
            if let Err(error) = spool.sweep() {
                warn!(%error, "payloads that nobody needs could not be removed");
            }
        });
    }
}
