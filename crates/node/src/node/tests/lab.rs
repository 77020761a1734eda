//! Sites in one process: real nodes over stores in memory, played by the tests or by a simple application.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use cheops_glue::Profile;
use cheops_plan::{Presence, Target};
use cheops_ports::{Coordinator as _, Prefer, Reply, Told, Write};
use cheops_replica::{Attempt, Digest, Event, Execution, Form, LocalId, MetaId, Set};
use cheops_store::{Incarnation, MemoryEngine, Options as StoreOptions, SiteKey, Store};
use cheops_types::{KeptBody, Limits, ServiceName, SiteName};
use tempfile::TempDir;

use crate::{
    Node, Options, Work, rows,
    surroundings::Surroundings,
    task::{Call, Task, What},
    waiting::AppAnswer,
};

pub(super) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

/// A clock that stands still unless it is moved, and bytes that never repeat.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now_ms: AtomicU64,
    seed: AtomicU64,
    pub(super) limits: Limits,
}

impl Surroundings for World {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let number = self.seed.fetch_add(1, Ordering::Relaxed);
            let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }

    fn profile(&self) -> Arc<Profile> {
        Arc::new(Profile::plain())
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn sites(&self) -> Vec<SiteName> {
        ["site1", "site2"].map(site).to_vec()
    }
}

/// One site's disk, and what surrounds it.
pub(super) struct Place {
    pub(super) site: SiteName,
    pub(super) disk: MemoryEngine,
    pub(super) world: Arc<World>,
    files: TempDir,
}

/// A site that runs.
pub(super) struct Running {
    pub(super) node: Node,
    pub(super) work: Work,
    pub(super) presence: Arc<Presence>,
}

impl Place {
    pub(super) fn new(name: &str) -> Self {
        Self::with(name, Limits::default())
    }

    pub(super) fn with(name: &str, limits: Limits) -> Self {
        Self {
            site: site(name),
            disk: MemoryEngine::default(),
            world: Arc::new(World {
                now_ms: AtomicU64::new(1_700_000_000_000),
                seed: AtomicU64::new(
                    name.len() as u64 * 1_000_000 + u64::from(name.as_bytes()[name.len() - 1]),
                ),
                limits,
            }),
            files: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn start(&self) -> Running {
        self.start_restored(false)
    }

    pub(super) fn start_restored(&self, restored: bool) -> Running {
        let data: PathBuf = self.files.path().to_owned();
        let world = Arc::clone(&self.world);
        let entropy = |bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        };
        let store_options = StoreOptions {
            restored,
            ..StoreOptions::new(Incarnation(world.now_ms()), &world.limits)
        };
        let store = Store::with_engine(self.disk.clone(), &store_options).unwrap();
        let presence = Arc::new(Presence::default());
        let options = Options {
            site: self.site.clone(),
            key: SiteKey::open(&data.join("site.key"), &entropy).unwrap(),
            data,
            restored,
            surroundings: world,
            presence: Arc::clone(&presence),
        };
        let (node, work) = Node::over(store, options).unwrap();
        Running { node, work, presence }
    }

    /// The place as a machine finds it after it was switched off now.
    pub(super) fn crashed(&self) -> Self {
        Self {
            site: self.site.clone(),
            disk: self.disk.crashed(),
            world: Arc::clone(&self.world),
            files: tempfile::tempdir().unwrap(),
        }
    }
}

impl Running {
    pub(super) fn set(&self, meta: &str) -> Option<Set> {
        rows::set(&self.node.core.store.read().unwrap(), &MetaId::new(meta)).unwrap()
    }

    /// The next thing that the application is asked for.
    pub(super) async fn call(&mut self) -> Box<Call> {
        loop {
            match self.work.tasks.recv().await.expect("the engine runs") {
                Task::Call(call) => return call,
                Task::Send { .. } | Task::Fetch { .. } => {}
            }
        }
    }

    pub(super) async fn execution(&mut self) -> (MetaId, Execution) {
        let call = self.call().await;
        match call.what {
            What::Execute(execution) => (call.set.meta.clone(), execution),
            what => panic!("{what:?}"),
        }
    }

    /// Answers an execution as the runner would.
    pub(super) fn answer(&self, meta: &MetaId, execution: &Execution, status: u16, local: Option<&str>) {
        answer(&self.node, meta, execution, status, local);
    }

    /// Whether nothing was asked for, once everything that was posted before is done.
    pub(super) async fn is_idle(&mut self) -> bool {
        // A set that nobody knows: answered in order, behind everything else.
        let barrier = MetaId::new("nobody");
        self.node
            .core
            .engine
            .tell(&barrier, Event::Wake)
            .await
            .unwrap_err();
        !std::iter::from_fn(|| self.work.tasks.try_recv().ok()).any(|task| matches!(task, Task::Call(_)))
    }
}

fn answer(node: &Node, meta: &MetaId, execution: &Execution, status: u16, local: Option<&str>) {
    let body = AppAnswer {
        status,
        headers: http::HeaderMap::new(),
        body: Bytes::from(format!("{{\"status\":{status}}}")),
    };
    node.core.waiting.put_answer(execution.token, body);
    let attempt = Attempt::Answered {
        status,
        local: local.map(LocalId::new),
        said: None,
    };
    let ticket = execution.ticket;
    node.core.engine.result(meta, Event::Executed { ticket, attempt });
}

/// A write of an order, as the data plane hands it over.
pub(super) fn write(method: &str, path: &str, target: Target) -> Write {
    Write {
        service: ServiceName::new("A").unwrap(),
        kind: "/orders".into(),
        target,
        request: http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("authorization", "Bearer secret-token")
            .body(KeptBody::Inline(Bytes::from_static(b"{\"n\":1}")))
            .unwrap(),
        scope: String::new(),
        prefer: Prefer::default(),
        from: None,
    }
}

pub(super) fn create() -> Write {
    let sites = ["site1", "site2"].map(site).to_vec();
    write("POST", "/orders", Target::new(sites))
}

pub(super) fn put(meta: &str) -> Write {
    write("PUT", &format!("/orders/{meta}"), Target::set(Arc::from(meta)))
}

pub(super) fn answered(reply: Reply) -> (u16, Told) {
    match reply {
        Reply::Answered { response, told } => (response.status().as_u16(), told),
        other => panic!("{other:?}"),
    }
}

/// What the application of a site says to creates, and what it was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct App {
    pub(super) refuses: bool,
    /// It knows no credential.
    pub(super) locked: bool,
    pub(super) seen: Arc<Mutex<Vec<String>>>,
}

/// Two sites that run by themselves.
pub(super) struct Pair {
    pub(super) nodes: BTreeMap<SiteName, Node>,
    pub(super) apps: BTreeMap<SiteName, App>,
    _places: Vec<Place>,
}

impl Pair {
    pub(super) fn start(apps: [App; 2]) -> Self {
        let places = ["site1", "site2"].map(Place::new);
        let running = places.each_ref().map(Place::start);
        let nodes: BTreeMap<_, _> = running
            .iter()
            .map(|running| (running.node.core.site.clone(), running.node.clone()))
            .collect();
        let apps: BTreeMap<_, _> = nodes.keys().cloned().zip(apps).collect();
        for Running { node, work, .. } in running {
            let app = apps[&node.core.site].clone();
            tokio::spawn(play(node, work, app, nodes.clone()));
        }
        Self {
            nodes,
            apps,
            _places: places.into(),
        }
    }

    pub(super) async fn write(&self, at: &str, write: Write) -> Reply {
        self.nodes[&site(at)].write(write).await
    }
}

/// A runner without a network or an application.
async fn play(node: Node, mut work: Work, app: App, nodes: BTreeMap<SiteName, Node>) {
    while let Some(task) = work.tasks.recv().await {
        match task {
            Task::Send { to, message } => {
                let engine = nodes[&to].core.engine.clone();
                tokio::spawn(async move { engine.receive(vec![*message]).await });
            }
            Task::Call(call) => called(&node, &app, *call),
            Task::Fetch { .. } => {}
        }
    }
}

fn called(node: &Node, app: &App, call: Call) {
    let meta = &call.set.meta;
    match call.what {
        What::Execute(execution) => {
            let (name, status, local) = match &execution.form {
                _ if app.locked => ("locked", 401, None),
                Form::Create { .. } | Form::CreateFrom { .. } if app.refuses => ("create", 422, None),
                Form::Create { .. } | Form::CreateFrom { .. } => ("create", 201, Some("7")),
                Form::Repeat { .. } => ("repeat", 200, None),
                Form::Remake { .. } | Form::Overwrite { .. } => ("overwrite", 200, None),
                Form::Delete { .. } => ("delete", 204, None),
            };
            app.seen.lock().unwrap().push(name.to_owned());
            answer(node, meta, &execution, status, local);
        }
        What::Look { .. } => {}
        What::Read { ticket, .. } => {
            let state = Some((b"{}".to_vec(), Digest(vec![1])));
            node.core.engine.result(meta, Event::Read { ticket, state });
        }
    }
}
