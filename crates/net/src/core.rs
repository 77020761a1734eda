//! One core: a thread with its own runtime, listeners and connections.

use std::{
    cell::RefCell, collections::HashMap, net::TcpListener, os::fd::AsFd as _, rc::Rc, sync::Arc,
    thread::JoinHandle, time::Duration,
};

use cheops_types::Limit;
use tokio::{
    sync::{mpsc, oneshot},
    task::LocalSet,
};

use crate::{
    Clock, Handler, Network, ServeOptions,
    budget::Budget,
    drain::Drain,
    files,
    outbox::Outbox,
    serve::{Acceptor, Dates, http2_builder},
    share::Shares,
    sparing::sparing,
    timer::CoarseTimer,
};

/// Pause after a failed accept (out of file descriptors, say), so that the core does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub type ListenerId = u64;

/// What a core can be told.
pub enum Command<T> {
    Listen {
        id: ListenerId,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        options: ServeOptions,
        /// Whose budgets do not count.
        exempt: Arc<[Network]>,
        tag: T,
    },
    /// New connections get this TLS; open ones stay as they are.
    Renew {
        id: ListenerId,
        tls: Arc<rustls::ServerConfig>,
    },
    /// Stops accepting; open connections end after their current request.
    Unlisten { id: ListenerId },
    /// Stops all listeners and ends the thread when their connections are gone.
    Stop,
}

#[derive(Debug, Clone)]
pub struct CoreOptions {
    pub name: String,
    pub drain_timeout_ms: u64,
    /// The time of day, in seconds since 1970, for the date of answers that have none.
    pub unix_s: fn() -> u64,
}

/// The way to talk to a core from other threads.
pub struct CoreHandle<T> {
    commands: mpsc::UnboundedSender<Command<T>>,
    thread: JoinHandle<()>,
}

impl<T> CoreHandle<T> {
    /// False when the core is gone.
    pub fn send(&self, command: Command<T>) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Waits until the core has stopped.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a core ended with a panic");
        }
    }
}

/// Starts a core. `make` runs on its thread, inside its runtime, and builds its handler.
pub fn spawn_core<H: Handler>(
    options: CoreOptions,
    make: impl FnOnce(Rc<Clock>) -> Rc<H> + Send + 'static,
) -> std::io::Result<CoreHandle<H::Tag>> {
    let (commands, receiver) = mpsc::unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (drain_timeout_ms, unix_s) = (options.drain_timeout_ms, options.unix_s);
    let thread = std::thread::Builder::new().name(options.name).spawn(move || {
        LocalSet::new().block_on(&runtime, async move {
            let clock = Clock::new();
            tokio::task::spawn_local(clock.clone().sweep());
            let handler = make(clock.clone());
            let running = run(handler, clock, receiver, drain_timeout_ms, Dates::new(unix_s));
            // Not a task of its own: that would come after those whose requests have arrived meanwhile.
            sparing(running).await;
        });
        // Blocking look-ups of names must not delay the end.
        runtime.shutdown_background();
    })?;
    Ok(CoreHandle { commands, thread })
}

struct Open<H: Handler> {
    acceptor: Rc<Acceptor<H>>,
    drain: Rc<Drain>,
    /// Dropping it ends the accept loop.
    _stop: oneshot::Sender<()>,
}

async fn run<H: Handler>(
    handler: Rc<H>,
    clock: Rc<Clock>,
    mut commands: mpsc::UnboundedReceiver<Command<H::Tag>>,
    drain_timeout_ms: u64,
    dates: Rc<Dates>,
) {
    let timer = CoarseTimer::install(&clock);
    let outbox = Outbox::new(clock.clone());
    let shares = Shares::new(clock.clone());
    tokio::task::spawn_local(outbox.clone().look());
    // Apart, so that clients take nothing from peers at the same address.
    let (of_clients, of_peers) = (Arc::<Budget>::default(), Arc::<Budget>::default());
    let mut open: HashMap<ListenerId, Open<H>> = HashMap::new();
    let mut closing: Vec<Rc<Drain>> = Vec::new();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Listen {
                id,
                listener,
                tls,
                options,
                exempt,
                tag,
            } => {
                let listener = match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => {
                        tracing::error!(%error, "a listener cannot be used");
                        continue;
                    }
                };
                let acceptor = Rc::new(Acceptor {
                    handler: handler.clone(),
                    tag,
                    tls: RefCell::new(tls),
                    options,
                    exempt,
                    clock: clock.clone(),
                    outbox: outbox.clone(),
                    shares: shares.clone(),
                    dates: dates.clone(),
                    http2: http2_builder(&options, timer),
                });
                let drain = Rc::new(Drain::default());
                let (stop, stopped) = oneshot::channel();
                let budget = if options.uses_reserve {
                    &of_peers
                } else {
                    &of_clients
                };
                tokio::task::spawn_local(accept(
                    listener,
                    acceptor.clone(),
                    budget.clone(),
                    drain.clone(),
                    stopped,
                ));
                open.insert(
                    id,
                    Open {
                        acceptor,
                        drain,
                        _stop: stop,
                    },
                );
            }
            Command::Renew { id, tls } => {
                if let Some(Open { acceptor, .. }) = open.get(&id) {
                    *acceptor.tls.borrow_mut() = Some(tls);
                }
            }
            Command::Unlisten { id } => {
                if let Some(Open { drain, .. }) = open.remove(&id) {
                    drain.start();
                    closing.retain(|drain| drain.len() > 0);
                    closing.push(drain);
                }
            }
            Command::Stop => break,
        }
    }
    closing.extend(open.into_values().map(|open| {
        open.drain.start();
        open.drain
    }));
    let emptied = async {
        for drain in &closing {
            drain.emptied().await;
        }
    };
    // Connections end themselves at their own time limit; the margin is for the sweep.
    let _ = tokio::time::timeout(Duration::from_millis(drain_timeout_ms + 500), emptied).await;
}

async fn accept<H: Handler>(
    listener: tokio::net::TcpListener,
    acceptor: Rc<Acceptor<H>>,
    budget: Arc<Budget>,
    drain: Rc<Drain>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        if drain.len() >= acceptor.options.connections_max {
            Limit::Connections.hit();
            tokio::time::sleep(ACCEPT_PAUSE).await;
            if !matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                return;
            }
            continue;
        }
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, remote)) => {
                    let options = &acceptor.options;
                    let Some(place) = budget.enter(remote.ip(), &acceptor.exempt, options.budget) else {
                        continue;
                    };
                    if !options.uses_reserve && !files::is_for_clients(&stream) {
                        Limit::FilesReserved.hit();
                        let freed = until_files_are_free(&listener);
                        if until_stopped(freed, &mut stopped).await.is_none() {
                            return;
                        }
                    }
                    tokio::task::spawn_local(acceptor.clone().serve(stream, remote, place, drain.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Waits until a new file would be one of those that clients may have. What is accepted meanwhile waits in the
/// kernel's queue, as behind `connections_max`.
async fn until_files_are_free(listener: &tokio::net::TcpListener) {
    loop {
        tokio::time::sleep(ACCEPT_PAUSE).await;
        // A file for a moment: its number tells.
        if let Ok(file) = listener.as_fd().try_clone_to_owned()
            && files::is_for_clients(&file)
        {
            return;
        }
    }
}

/// None when the listener was stopped before.
async fn until_stopped<F: Future>(future: F, stopped: &mut oneshot::Receiver<()>) -> Option<F::Output> {
    tokio::select! {
        biased;
        _ = stopped => None,
        output = future => Some(output),
    }
}
