//! Several sites in one process: real nodes, an application of a few lines each, links that can be cut.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use cheops_glue::Profile;
use cheops_mesh::{Identity, MeshCa, Validity};
use cheops_net::Body;
use cheops_plan::{Presence, Target};
use cheops_ports::{Application, Coordinator as _, Later, NoAnswer, Peers, Prefer, Reply, Write};
use cheops_store::SiteKey;
use cheops_types::{Code, KeptBody, Limits, Outcome, Problem, ServiceName, SiteName, headers};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Node, Operator, Options, Runner,
    model::{SetDetail, SetHint, SetState},
    surroundings::Surroundings,
};

const NOW_S: u64 = 1_800_000_000;
/// Far beyond what anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn name(site: &str) -> SiteName {
    SiteName::new(site).unwrap()
}

/// All sites, on the current `LocalSet`.
pub(super) struct Mesh {
    sites: Rc<Sites>,
    _dir: TempDir,
}

#[derive(Default)]
struct Sites {
    nodes: RefCell<BTreeMap<SiteName, (Node, Rc<App>)>>,
    cut: RefCell<BTreeSet<(SiteName, SiteName)>>,
}

impl Mesh {
    pub(super) fn start(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = MeshCa::create(Validity::days(NOW_S, 10)).unwrap();
        let all: Vec<_> = names.iter().map(|site| name(site)).collect();
        let sites = Rc::new(Sites::default());
        for (at, site) in all.iter().enumerate() {
            let data = dir.path().join(site.as_str());
            std::fs::create_dir(&data).unwrap();
            let around = Around::new(&ca, site, &all, at as u64);
            let app = Rc::new(App::new(at as u64 * 1000));
            let node = start(&sites, &data, site, around, &app);
            sites.nodes.borrow_mut().insert(site.clone(), (node, app));
        }
        Self { sites, _dir: dir }
    }

    pub(super) fn node(&self, site: &str) -> Node {
        self.sites.nodes.borrow()[&name(site)].0.clone()
    }

    pub(super) fn app(&self, site: &str) -> Rc<App> {
        Rc::clone(&self.sites.nodes.borrow()[&name(site)].1)
    }

    pub(super) fn at(&self, site: &str) -> Operator {
        self.node(site).operator()
    }

    pub(super) fn cut(&self, a: &str, b: &str) {
        let mut cut = self.sites.cut.borrow_mut();
        cut.insert((name(a), name(b)));
        cut.insert((name(b), name(a)));
    }

    pub(super) fn heal(&self) {
        self.sites.cut.borrow_mut().clear();
        let nodes = self.sites.nodes.borrow();
        for (node, _) in nodes.values() {
            nodes.keys().for_each(|site| node.peer_up(site));
        }
    }

    /// Writes through a site; the application's answer.
    pub(super) async fn write(&self, site: &str, write: Write) -> Reply {
        self.node(site).write(write).await
    }

    /// A new order over some sites, once all of them have it; its meta-id.
    pub(super) async fn order(&self, sites: &[&str], body: &Value) -> String {
        let target = Target::new(sites.iter().map(|site| name(site)).collect());
        let reply = self.write(sites[0], write(target, "POST", "/orders", body)).await;
        let Reply::Answered { response, told } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(response.status(), 201);
        for site in sites {
            self.until(site, &told.set, |set| set.set.state == SetState::Ok)
                .await;
        }
        told.set.to_string()
    }

    /// Changes an order through a site.
    pub(super) async fn change(&self, site: &str, meta: &str, method: &str, body: &Value) -> Reply {
        let target = Target::set(Arc::from(meta));
        self.write(site, write(target, method, &format!("/orders/{meta}"), body))
            .await
    }

    /// Waits until a set is as wanted at a site.
    pub(super) async fn until(
        &self,
        site: &str,
        meta: &str,
        wanted: impl Fn(&SetDetail) -> bool,
    ) -> SetDetail {
        let started = Instant::now();
        loop {
            let set = self.at(site).set(meta, &SetHint::default()).await;
            match set {
                Ok(set) if wanted(&set) => return set,
                last => assert!(started.elapsed() < PATIENCE, "{site} stays at {last:#?}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn start(sites: &Rc<Sites>, data: &Path, site: &SiteName, around: Around, app: &Rc<App>) -> Node {
    let entropy = |bytes: &mut [u8]| -> std::io::Result<()> {
        bytes.fill(7);
        Ok(())
    };
    let key = SiteKey::open(&data.join("site.key"), &entropy).unwrap();
    let options = Options {
        site: site.clone(),
        data: data.to_owned(),
        restored: false,
        key,
        surroundings: Arc::new(around),
        presence: Arc::new(Presence::default()),
    };
    let (node, work) = Node::start(options).unwrap();
    let links = Rc::new(Links {
        here: site.clone(),
        sites: Rc::clone(sites),
    });
    tokio::task::spawn_local(Runner::new(work, app.clone(), links).run());
    node
}

pub(super) fn write(target: Target, method: &str, path: &str, body: &Value) -> Write {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    Write {
        service: ServiceName::new("A").unwrap(),
        kind: "/orders".to_owned(),
        target,
        request: Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("authorization", "Bearer first")
            .body(KeptBody::Inline(body.into()))
            .unwrap(),
        scope: String::new(),
        prefer: Prefer::default(),
        from: None,
    }
}

struct Around {
    sites: Vec<SiteName>,
    identity: Arc<Identity>,
    started: Instant,
    drawn: AtomicU64,
}

impl Around {
    fn new(ca: &MeshCa, site: &SiteName, sites: &[SiteName], seed: u64) -> Self {
        let issued = ca.issue(site, Validity::days(NOW_S, 5)).unwrap();
        let identity = Identity::new(&ca.to_pem().certificate, &issued.certificate, &issued.key).unwrap();
        Self {
            sites: sites.to_vec(),
            identity: Arc::new(identity),
            started: Instant::now(),
            drawn: AtomicU64::new(seed << 48),
        }
    }
}

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        NOW_S * 1000 + self.started.elapsed().as_millis() as u64
    }

    /// Never the same twice, at no two sites.
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let drawn = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
            let mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            chunk.copy_from_slice(&mixed[..chunk.len()]);
        }
    }

    fn profile(&self) -> Arc<Profile> {
        Arc::new(Profile::plain())
    }

    fn limits(&self) -> Limits {
        Limits {
            upstream_timeout_ms: 10_000,
            prefer_wait_max_s: 10,
            replay_retry_min_ms: 10,
            replay_blocked_ms: 20,
            doubt_settle_ms: 10,
            ship_retry_min_ms: 20,
            ..Limits::default()
        }
    }

    fn sites(&self) -> Vec<SiteName> {
        self.sites.clone()
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        Some(Arc::clone(&self.identity))
    }
}

struct Links {
    here: SiteName,
    sites: Rc<Sites>,
}

impl Peers for Links {
    fn ask<'a>(
        &'a self,
        site: &'a SiteName,
        request: Request<Body>,
        _: bool,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(async move {
            let lost = || NoAnswer {
                outcome: Outcome::NotExecuted,
                is_broken: false,
                problem: Problem::new(Code::PeerUnreachable, format!("site `{site}` cannot be reached"))
                    .at(site),
            };
            if !self.is_up(site) {
                return Err(lost());
            }
            let node = self.sites.nodes.borrow().get(site).map(|(node, _)| node.clone());
            let node = node.ok_or_else(lost)?;
            let path = request.uri().path().to_owned();
            let path = path.strip_prefix(headers::PEER_REPLICATION_PATH).unwrap();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let (status, body) = match node.receive(&self.here, path, body).await {
                Ok(body) => (200, Body::full(body)),
                Err(problem) => (problem.status(), Body::full(problem.to_bytes())),
            };
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(response)
        })
    }

    fn is_up(&self, site: &SiteName) -> bool {
        let cut = self.sites.cut.borrow();
        !cut.contains(&(self.here.clone(), site.clone()))
    }
}

/// What goes wrong with the next requests of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Status(u16),
    /// It executes, and the answer is lost.
    Silent,
}

/// Orders, and who may see them.
pub(super) struct App {
    pub(super) orders: RefCell<BTreeMap<u64, Value>>,
    last: Cell<u64>,
    pub(super) token: RefCell<Option<String>>,
    pub(super) faults: RefCell<BTreeMap<String, Fault>>,
}

impl App {
    fn new(first: u64) -> Self {
        Self {
            orders: RefCell::default(),
            last: Cell::new(first),
            token: RefCell::default(),
            faults: RefCell::default(),
        }
    }

    pub(super) fn put(&self, order: Value) -> u64 {
        let id = self.last.get() + 1;
        self.last.set(id);
        self.orders.borrow_mut().insert(id, order);
        id
    }

    pub(super) fn fail(&self, method: &str, fault: Option<Fault>) {
        let mut faults = self.faults.borrow_mut();
        match fault {
            Some(fault) => faults.insert(method.to_owned(), fault),
            None => faults.remove(method),
        };
    }

    fn answer(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let sent: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let id = path
            .strip_prefix("/orders/")
            .and_then(|rest| rest.split('/').next()?.parse().ok());
        let Some(id) = id else {
            let id = self.put(sent);
            return (201, self.shown(id));
        };
        if !self.orders.borrow().contains_key(&id) {
            return (404, json!({ "error": "no such order" }));
        }
        match method {
            "GET" => {}
            "DELETE" => {
                self.orders.borrow_mut().remove(&id);
                return (204, Value::Null);
            }
            "PUT" => {
                let mut order = sent;
                // The path says which one it is.
                order.as_object_mut().unwrap().remove("id");
                self.orders.borrow_mut().insert(id, order);
            }
            _ => {
                let mut orders = self.orders.borrow_mut();
                let shipped = orders[&id]["shipped"].as_u64().unwrap_or(0) + 1;
                if let Some(order) = orders.get_mut(&id) {
                    order["shipped"] = json!(shipped);
                }
            }
        }
        (200, self.shown(id))
    }

    fn shown(&self, id: u64) -> Value {
        let mut order = self.orders.borrow()[&id].clone();
        order["id"] = json!(id);
        order
    }
}

impl Application for App {
    fn call<'a>(
        &'a self,
        _: &'a ServiceName,
        request: Request<Body>,
        _: &'a str,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let fault = self.faults.borrow().get(head.method.as_str()).copied();
            let wanted = self
                .token
                .borrow()
                .as_ref()
                .map(|token| format!("Bearer {token}"));
            let brought = head
                .headers
                .get("authorization")
                .and_then(|value| value.to_str().ok());
            let (status, answer) = match fault {
                _ if wanted.is_some() && wanted.as_deref() != brought => {
                    (401, json!({ "error": "who are you?" }))
                }
                Some(Fault::Status(status)) => (status, json!({ "error": "not now" })),
                _ => self.answer(head.method.as_str(), head.uri.path(), &body),
            };
            if fault == Some(Fault::Silent) {
                return Err(NoAnswer {
                    outcome: Outcome::Unknown,
                    is_broken: false,
                    problem: Problem::new(Code::UnknownOutcome, "the answer was lost"),
                });
            }
            let body = if answer.is_null() {
                String::new()
            } else {
                answer.to_string()
            };
            let mut response = Response::new(Body::full(body));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(response)
        })
    }
}
