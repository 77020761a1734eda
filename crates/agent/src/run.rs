//! `cheops run`: one site, from its configuration to its last connection.

mod configured;
mod data_dir;
mod files;
mod heartbeats;
mod listeners;
mod reload;
mod replication;
mod scopes;
mod secrets;
mod source;
mod world;

use std::{
    path::Path,
    process::ExitCode,
    rc::Rc,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use cheops_mesh::{Pulses, Table};
use cheops_net::{Clock, CoreHandle, CoreOptions, spawn_core};
use cheops_proxy::{Correlation, Proxy, Role, Shared, Tag};
use cheops_types::Distances;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    task::LocalSet,
};

use crate::{
    admin::{self, AdminSocket},
    config::Config,
    stop::Stop,
};
use heartbeats::Heartbeats;
use listeners::{Addresses, Listeners};
use reload::{Reload, Reloader};
use replication::Replication;
use scopes::Scopes;
use source::Agent;
use world::WorldMaker;

pub(crate) type Cores = Rc<Vec<CoreHandle<Arc<Tag>>>>;

/// `restored`: the data directory was put back from a copy. `exit_with_stdin`: ends when standard input does.
pub(crate) fn run(config: &Path, restored: bool, exit_with_stdin: bool) -> anyhow::Result<ExitCode> {
    let config = Config::load(config)?;
    files::raise(config.limits.files_reserved);
    crate::logging::set_kind_max_lines(config.limits.log_kind_max_lines);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = LocalSet::new().block_on(&runtime, serve(config, restored, exit_with_stdin));
    // Blocking look-ups of names must not delay the end.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: Config, restored: bool, exit_with_stdin: bool) -> anyhow::Result<()> {
    let mut stop = Stop::listen(exit_with_stdin)?.except_hang_up();
    data_dir::check(&config.data_dir)?;
    let socket = AdminSocket::bind(&config.admin_socket())?;
    let keys = secrets::key_maker(&config.data_dir)?;
    let mut worlds = WorldMaker::default();
    let world = worlds.make(&config)?;
    let distances = Arc::new(ArcSwap::from_pointee(Distances::default()));
    let table = Table::new(config.site.clone(), config.limits.heartbeat_misses_max);
    let pulses = Pulses::new(table, distances.clone());
    let shared = Shared::new(world, distances, Correlation::new(keys), Arc::default());
    // Before a service can call: what it goes on with must be known by then.
    let scopes = Scopes::restore(shared.clone(), &config.data_dir);

    let clock = Clock::new();
    tokio::task::spawn_local(clock.clone().sweep());
    // Before anybody can ask: what is replicated must be known by then.
    let replication = Replication::start(&config, restored, &shared, pulses.clone(), clock.clone())?;
    let node = replication.node.clone();
    let workers = workers(&config);
    let cores: Cores = Rc::new(spawn_cores(workers, &config, &shared)?);
    let mut listeners = Listeners::new(cores.clone());
    let prepared = listeners.prepare(&config)?;
    listeners.commit(prepared);
    let mut heartbeats = Heartbeats::new(pulses.clone(), clock);
    heartbeats.apply(&shared.world(), false);

    let (reloads, mut asked) = mpsc::channel(8);
    let config = Arc::new(ArcSwap::from_pointee(config));
    let agent = Arc::new(Agent::new(
        shared.clone(),
        config.clone(),
        pulses,
        listeners.addresses(),
        workers,
        node.operator(),
        reloads.clone(),
    ));
    let (stop_admin, admin_stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(admin::serve(socket, agent, async {
        let _ = admin_stopped.await;
    }));
    tokio::task::spawn_local(reload_on_hangup(reloads)?);
    let (stop_keeping, keeping_stopped) = oneshot::channel();
    let keeping = tokio::task::spawn_local(scopes.keep(keeping_stopped));
    announce(&config.load(), &listeners.addresses());

    let mut reloader = Reloader {
        config,
        shared,
        worlds,
        listeners,
        heartbeats,
        replication,
    };
    loop {
        tokio::select! {
            () = stop.asked() => break,
            reload = asked.recv() => match reload {
                Some(Reload { answer }) => {
                    let result = reloader.reload();
                    let _ = answer.send(result);
                }
                None => break,
            },
        }
    }
    tracing::info!("stopping: open requests may end");
    drop(stop_admin);
    // A reload that nobody will carry out any more must not keep the admin API waiting.
    drop(asked);
    tokio::select! {
        _ = serving => {}
        () = stop.asked() => {}
    }
    drain(reloader, cores, &mut stop).await;
    drop(stop_keeping);
    let _ = keeping.await;
    // Last: what a request under way recorded is durable, and its results are kept where they came.
    let stopped = tokio::task::spawn_blocking(move || node.stop());
    tokio::select! {
        _ = stopped => {}
        () = stop.asked() => {}
    }
    Ok(())
}

fn workers(config: &Config) -> usize {
    match config.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        workers => workers,
    }
}

fn spawn_cores(
    workers: usize,
    config: &Config,
    shared: &Arc<Shared>,
) -> anyhow::Result<Vec<CoreHandle<Arc<Tag>>>> {
    let spawn = |index| {
        let shared = shared.clone();
        let options = CoreOptions {
            name: format!("core-{index}"),
            drain_timeout_ms: config.limits.drain_timeout_ms,
            unix_s,
        };
        spawn_core(options, move |clock| Proxy::new(shared, clock)).context("cannot start a core")
    };
    (0..workers).map(spawn).collect()
}

/// The time of day. Answers are dated by it; nothing else depends on it there.
fn unix_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// SIGHUP asks for a reload like the admin API does; its result is logged.
fn reload_on_hangup(reloads: mpsc::Sender<Reload>) -> anyhow::Result<impl Future<Output = ()>> {
    let mut hangups = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    Ok(async move {
        while hangups.recv().await.is_some() {
            let (answer, result) = oneshot::channel();
            if reloads.send(Reload { answer }).await.is_err() {
                return;
            }
            match result.await {
                Ok(Ok(done)) => {
                    tracing::info!(generation = done.generation, changes = ?done.changes, "reloaded");
                }
                Ok(Err(problem)) => {
                    tracing::error!(detail = %problem.detail, "reload refused; the old configuration stays in force");
                }
                Err(_) => return,
            }
        }
    })
}

fn announce(config: &Config, addresses: &Addresses) {
    for name in config.services.keys() {
        for (key, role) in [
            ("public", Role::Public),
            ("internal", Role::Internal),
            ("listen", Role::Shared),
        ] {
            if let Some(address) = addresses.of(name, role) {
                tracing::info!(service = %name, %address, "{key}");
            }
        }
    }
    tracing::info!(site = %config.site, admin = %config.admin_socket().display(), "ready");
}

/// Ends the cores; a second signal does not wait for open requests.
async fn drain(reloader: Reloader, cores: Cores, stop: &mut Stop) {
    for core in cores.iter() {
        core.send(cheops_net::Command::Stop);
    }
    drop(reloader);
    let Ok(cores) = Rc::try_unwrap(cores) else { return };
    let joined = tokio::task::spawn_blocking(|| cores.into_iter().for_each(CoreHandle::join));
    tokio::select! {
        _ = joined => {}
        () = stop.asked() => tracing::warn!("stopped without waiting for open requests"),
    }
}
