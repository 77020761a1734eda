//! Sites that reach each other by calling each other.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashSet},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cheops_glue::Profile;
use cheops_mesh::{Identity, MeshCa, Validity};
use cheops_net::Body;
use cheops_node::{Node, Options, Runner, Surroundings};
use cheops_plan::Presence;
use cheops_ports::{Application, Coordinator as _, Later, NoAnswer, Peers};
use cheops_store::SiteKey;
use cheops_types::{Code, Limits, Outcome, Problem, ServiceName, SiteName, headers};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tempfile::TempDir;

use crate::application::FakeApplication;

const START_MS: u64 = 1_800_000_000_000;

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub(crate) fn service(name: &str) -> ServiceName {
    ServiceName::new(name).unwrap()
}

/// All sites of a test.
pub(crate) struct World<A = FakeApplication> {
    links: Rc<Links>,
    applications: BTreeMap<String, Rc<A>>,
    /// Removed with the world.
    dirs: Vec<TempDir>,
}

#[derive(Default)]
struct Links {
    nodes: RefCell<BTreeMap<SiteName, Node>>,
    cut: RefCell<HashSet<SiteName>>,
    /// Sites that do not reach others, while those reach them.
    mute: RefCell<HashSet<SiteName>>,
    /// Payloads get through to nobody.
    payloads_cut: Cell<bool>,
}

struct Around {
    sites: Vec<SiteName>,
    identity: Arc<Identity>,
    profile: Arc<Profile>,
    limits: Limits,
    started: std::time::Instant,
    random: AtomicU64,
}

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        START_MS + self.started.elapsed().as_millis() as u64
    }

    fn fill(&self, buffer: &mut [u8]) {
        for byte in buffer {
            let next = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            *byte = (next.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8;
        }
    }

    fn profile(&self) -> Arc<Profile> {
        Arc::clone(&self.profile)
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn sites(&self) -> Vec<SiteName> {
        self.sites.clone()
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        Some(Arc::clone(&self.identity))
    }
}

/// One site's way to the others.
struct Link {
    here: SiteName,
    links: Rc<Links>,
}

impl Link {
    async fn answer(&self, to: &SiteName, request: Request<Body>) -> Result<Response<Body>, Problem> {
        let node = self.links.nodes.borrow()[to].clone();
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = head.uri.path();
        if let Some(path) = path.strip_prefix(headers::PEER_REPLICATION_PATH) {
            let answer = node.receive(&self.here, path, body).await?;
            return Ok(Response::new(Body::full(answer)));
        }
        if self.links.payloads_cut.get() {
            return Err(Problem::new(Code::PeerDown, "payloads do not get through"));
        }
        let hash = path.strip_prefix(headers::PEER_PAYLOAD_PATH).unwrap();
        let offset = head.uri.query().and_then(|query| query.strip_prefix("offset="));
        node.payload(&self.here, hash, offset.unwrap().parse().unwrap())
            .map(Response::new)
    }
}

impl Peers for Link {
    fn ask<'a>(
        &'a self,
        to: &'a SiteName,
        request: Request<Body>,
        _is_long: bool,
    ) -> Later<'a, Result<Response<Body>, NoAnswer>> {
        Box::pin(async move {
            if !self.is_up(to) {
                return Err(NoAnswer {
                    outcome: Outcome::NotExecuted,
                    is_broken: false,
                    problem: Problem::new(Code::PeerDown, "the link is cut"),
                });
            }
            let answer = self.answer(to, request).await;
            Ok(answer.unwrap_or_else(|problem| {
                let body = Body::full(problem.to_bytes());
                Response::builder().status(problem.status()).body(body).unwrap()
            }))
        })
    }

    fn is_up(&self, to: &SiteName) -> bool {
        let cut = self.links.cut.borrow();
        let is_mute = self.links.mute.borrow().contains(&self.here);
        !cut.contains(to) && !cut.contains(&self.here) && !is_mute
    }
}

impl World {
    /// Starts sites with the example application, runs a test and stops them.
    pub(crate) fn run<const N: usize>(names: [&str; N], test: impl AsyncFnOnce(&Self)) {
        let application = |number| FakeApplication::new(1000 * (number + 1));
        Self::run_with(Profile::example(), application, names, test);
    }

    /// The same, where nothing that is lost is sent again by itself as long as the test lasts.
    pub(crate) fn run_once_told<const N: usize>(names: [&str; N], test: impl AsyncFnOnce(&Self)) {
        let application = |number| FakeApplication::new(1000 * (number + 1));
        let limits = Limits {
            ship_retry_min_ms: 600_000,
            ship_retry_max_ms: 600_000,
            ..Limits::default()
        };
        Self::run_within(&limits, Profile::example(), application, names, test);
    }
}

impl<A: Application + 'static> World<A> {
    /// The same with another application, of which each site has one of its own.
    pub(crate) fn run_with<const N: usize>(
        profile: Profile,
        application: impl Fn(u64) -> A,
        names: [&str; N],
        test: impl AsyncFnOnce(&Self),
    ) {
        Self::run_within(&Limits::default(), profile, application, names, test);
    }

    fn run_within<const N: usize>(
        limits: &Limits,
        profile: Profile,
        application: impl Fn(u64) -> A,
        names: [&str; N],
        test: impl AsyncFnOnce(&Self),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let world = Self::start(limits, &Arc::new(profile), application, &names);
            test(&world).await;
            for node in world.links.nodes.borrow().values() {
                node.stop();
            }
        });
    }

    fn start(
        limits: &Limits,
        profile: &Arc<Profile>,
        application: impl Fn(u64) -> A,
        names: &[&str],
    ) -> Self {
        let ca = MeshCa::create(Validity::days(START_MS / 1000, 3650)).unwrap();
        let sites: Vec<_> = names.iter().copied().map(site).collect();
        let mut world = Self {
            links: Rc::default(),
            applications: BTreeMap::new(),
            dirs: Vec::new(),
        };
        for (number, name) in sites.iter().enumerate() {
            let issued = ca.issue(name, Validity::days(START_MS / 1000, 30)).unwrap();
            let pem = ca.to_pem().certificate;
            let around = Around {
                sites: sites.clone(),
                identity: Arc::new(Identity::new(&pem, &issued.certificate, &issued.key).unwrap()),
                profile: Arc::clone(profile),
                limits: limits.clone(),
                started: std::time::Instant::now(),
                random: AtomicU64::new(number as u64 + 1),
            };
            let application = Rc::new(application(number as u64));
            world
                .applications
                .insert(name.to_string(), Rc::clone(&application));
            world.add(name, around, application);
        }
        world
    }

    fn add(&mut self, name: &SiteName, around: Around, application: Rc<A>) {
        let dir = tempfile::tempdir().unwrap();
        let entropy = |bytes: &mut [u8]| -> std::io::Result<()> {
            around.fill(bytes);
            Ok(())
        };
        let key = SiteKey::open(&dir.path().join("site.key"), &entropy).unwrap();
        let (node, work) = Node::start(Options {
            site: name.clone(),
            data: dir.path().to_owned(),
            restored: false,
            key,
            surroundings: Arc::new(around),
            presence: Arc::new(Presence::default()),
        })
        .unwrap();
        let link = Link {
            here: name.clone(),
            links: Rc::clone(&self.links),
        };
        tokio::task::spawn_local(Runner::new(work, application, Rc::new(link)).run());
        self.links.nodes.borrow_mut().insert(name.clone(), node);
        self.dirs.push(dir);
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        self.links.nodes.borrow()[&site(name)].clone()
    }

    pub(crate) fn application(&self, name: &str) -> &A {
        &self.applications[name]
    }

    /// Lets no payload through, or lets them again. Everything else does get through.
    pub(crate) fn cut_payloads(&self, is_cut: bool) {
        self.links.payloads_cut.set(is_cut);
    }

    /// Takes a site off the network, or puts it back.
    pub(crate) fn cut(&self, name: &str, is_cut: bool) {
        let mut cut = self.links.cut.borrow_mut();
        if is_cut {
            cut.insert(site(name));
        } else {
            cut.remove(&site(name));
        }
    }

    /// Lets a site reach nobody, while the others reach it, or lets it again.
    pub(crate) fn mute(&self, name: &str, is_mute: bool) {
        let mut mute = self.links.mute.borrow_mut();
        if is_mute {
            mute.insert(site(name));
        } else {
            mute.remove(&site(name));
        }
    }
}
