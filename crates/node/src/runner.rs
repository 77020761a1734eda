//! What the engine wants done outside: requests to this site's application, messages to the other sites.

mod asks;
mod bring;
#[cfg(test)]
mod tests;

use std::{pin::pin, rc::Rc, sync::Arc, time::Duration};

use cheops_ports::{Application, Peers};
use cheops_replica::{Attempt, Event};
use cheops_strong::Groups;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking, spawn_local},
    time::{MissedTickBehavior, interval},
};
use tracing::warn;

use crate::{
    asks::Ask,
    core::Core,
    executor::{Broken, Executed, Executor, Replica},
    group_asks::{self, GroupAsk},
    names, strong,
    task::{Call, Task, What},
    upkeep,
    wire::{Outboxes, sign_all},
};
use bring::Bringing;

/// How often payloads that nobody needs any more are removed.
const SWEEP: Duration = Duration::from_secs(30);

/// Tasks that are taken at once: what is sent among them shares a signature.
const TASKS_AT_ONCE: usize = 256;

/// What the engine wants done, for the runner.
#[derive(Debug)]
pub struct Work {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: mpsc::Receiver<Task>,
}

/// Carries out the engine's tasks on the control runtime, and tells it what became of them.
pub struct Runner {
    reach: Rc<Reach>,
    tasks: mpsc::Receiver<Task>,
    asks: mpsc::Receiver<Ask>,
    group_asks: mpsc::Receiver<GroupAsk>,
}

/// A task that ends with its owner.
struct Ending(JoinHandle<()>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What every task needs.
struct Reach {
    core: Arc<Core>,
    executor: Executor,
    peers: Rc<dyn Peers>,
    outboxes: Outboxes,
    bringing: Bringing,
}

impl Runner {
    pub fn new(work: Work, application: Rc<dyn Application>, peers: Rc<dyn Peers>) -> Self {
        let Work { core, tasks } = work;
        let asks = core.asks.attach();
        let group_asks = core.groups.attach();
        let reach = Reach {
            executor: Executor::new(Arc::clone(&core), application, Rc::clone(&peers)),
            outboxes: Outboxes::new(Arc::clone(&core), Rc::clone(&peers)),
            bringing: Bringing::default(),
            core,
            peers,
        };
        Self {
            reach: Rc::new(reach),
            tasks,
            asks,
            group_asks,
        }
    }

    /// Runs until the engine ends. Within a `LocalSet`.
    pub async fn run(mut self) {
        let reach = Rc::clone(&self.reach);
        let has_calls = move || reach.executor.is_busy();
        let (core, peers) = (Arc::clone(&self.reach.core), Rc::clone(&self.reach.peers));
        let _upkeep = Ending(spawn_local(upkeep::run(core, peers, has_calls)));
        let groups = self.start_groups().await;
        let _keep = groups.clone().map(|groups| {
            let (core, peers) = (Arc::clone(&self.reach.core), Rc::clone(&self.reach.peers));
            Ending(spawn_local(strong::keep(core, peers, groups)))
        });
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut tasks = Vec::with_capacity(TASKS_AT_ONCE);
        loop {
            tokio::select! {
                count = self.tasks.recv_many(&mut tasks, TASKS_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    self.begin_all(&mut tasks);
                }
                Some(ask) = self.asks.recv() => {
                    spawn_local(asks::answer(Rc::clone(&self.reach), ask));
                }
                Some(ask) = self.group_asks.recv() => {
                    if let Some(groups) = groups.clone() {
                        spawn_local(group_asks::answer(groups, ask));
                    }
                }
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    /// The engine is there already: groups that go on have something to tell it.
    async fn start_groups(&mut self) -> Option<Groups> {
        let (core, peers) = (Arc::clone(&self.reach.core), Rc::clone(&self.reach.peers));
        let mut starting = pin!(async {
            strong::confirmed(&core).await;
            strong::start(&core, &peers).await
        });
        let mut tasks = Vec::with_capacity(TASKS_AT_ONCE);
        loop {
            tokio::select! {
                groups = &mut starting => return groups,
                Some(ask) = self.group_asks.recv() => group_asks::refuse(ask),
                Some(ask) = self.asks.recv() => {
                    spawn_local(asks::answer(Rc::clone(&self.reach), ask));
                }
                count = self.tasks.recv_many(&mut tasks, TASKS_AT_ONCE), if !self.tasks.is_closed() => {
                    if count > 0 {
                        self.begin_all(&mut tasks);
                    }
                }
            }
        }
    }

    fn begin_all(&self, tasks: &mut Vec<Task>) {
        let messages = tasks.iter_mut().filter_map(|task| match task {
            Task::Send { message, .. } => Some(&mut **message),
            Task::Call(_) | Task::Fetch { .. } => None,
        });
        sign_all(&self.reach.core, messages);
        for task in tasks.drain(..) {
            self.begin(task);
        }
    }

    /// Never waits: the next task may be for somebody who does.
    fn begin(&self, task: Task) {
        let reach = Rc::clone(&self.reach);
        let call = match task {
            Task::Send { to, message } => return reach.outboxes.send(&to, *message),
            Task::Fetch { set, payload } => return drop(spawn_local(reach.bring(set, payload))),
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
                let under_way = reach.core.calls.begin();
                spawn_local(async move {
                    let ticket = execution.ticket;
                    let executed = match &under_way {
                        Some(_) => reach.executor.execute(&set, &others, &stand_in, execution).await,
                        None => Ok(Executed {
                            attempt: Attempt::NotSent,
                            recast: None,
                        }),
                    };
                    let event = match executed {
                        Ok(Executed { attempt, recast }) => {
                            // The engine hears first what the write has become.
                            if let Some(recast) = recast.map(Box::new) {
                                let recast = Event::Recast { ticket, recast };
                                reach.core.engine.result(&set.meta, recast);
                            }
                            Event::Executed { ticket, attempt }
                        }
                        Err(Broken) => Event::Broken {
                            ticket,
                            settle_ms: reach.core.surroundings.limits().doubt_broken_ms,
                        },
                    };
                    reach.core.engine.result(&set.meta, event);
                });
            }
            What::Look { ticket, token } => {
                spawn_local(async move {
                    let found = reach.executor.look(&set, &stand_in, token).await;
                    let event = Event::Looked { ticket, found };
                    reach.core.engine.result(&set.meta, event);
                });
            }
            What::Read { ticket, local } => {
                spawn_local(async move {
                    let event = match reach.executor.read(&set, &local, &stand_in).await {
                        Replica::Here(state, digest) => Event::Read {
                            ticket,
                            state: Some((state, digest)),
                        },
                        Replica::Missing => Event::Missing { ticket },
                        Replica::Unknown => Event::Read { ticket, state: None },
                    };
                    reach.core.engine.result(&set.meta, event);
                });
            }
        }
    }

    fn sweep(&self) {
        let reach = Rc::clone(&self.reach);
        spawn_local(async move {
            reach.executor.fetcher.tidy().await;
            names::tell_unasked(&reach.core).await;
        });
        self.reach.core.spooled.sweep();
        let spool = self.reach.core.spool.clone();
        spawn_blocking(move || {
            if let Err(error) = spool.sweep() {
                warn!(%error, "payloads that nobody needs could not be removed");
            }
        });
    }
}
