//! One site without its engine, for the tests of what stands around it.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet, VecDeque},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use bytes::Bytes;
use cheops_glue::Profile;
use cheops_mesh::{Identity, MeshCa, Validity};
use cheops_net::Body;
use cheops_plan::Presence;
use cheops_ports::{Application, Later, NoAnswer, Peers};
use cheops_replica::MetaId;
use cheops_store::{Incarnation, MemoryEngine, Options, SiteKey, Spool, Store, tables::SetRow};
use cheops_types::{Code, Limits, Outcome, Problem, ServiceName, SiteName};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use tempfile::TempDir;

use crate::{
    asks::Asks,
    calls::Calls,
    commit_times::CommitTimes,
    comparisons::Comparisons,
    core::Core,
    finished::Finished,
    inbox::EngineHandle,
    missed::Missed,
    rows::{Head, HeadStanding, Sets},
    spooled::Spooled,
    surroundings::{Access, Surroundings},
    verifications::Verifications,
    waiting::Waiting,
};

pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

pub(crate) struct Lab {
    pub(crate) core: Arc<Core>,
    _dir: TempDir,
}

struct Around {
    profile: Arc<Profile>,
    limits: Limits,
    identity: Option<Arc<Identity>>,
    next: AtomicU8,
    access: HashMap<String, Access>,
}

impl Surroundings for Around {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn fill(&self, buffer: &mut [u8]) {
        for byte in buffer {
            *byte = self.next.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn profile(&self) -> Arc<Profile> {
        Arc::clone(&self.profile)
    }

    fn limits(&self) -> Limits {
        self.limits.clone()
    }

    fn sites(&self) -> Vec<SiteName> {
        ["a", "b", "c"].map(site).to_vec()
    }

    fn identity(&self) -> Option<Arc<Identity>> {
        self.identity.clone()
    }

    fn access(&self, service: &ServiceName) -> Access {
        self.access.get(service.as_str()).cloned().unwrap_or_default()
    }

    /// Site `c` is a stranger.
    fn withheld(&self, from: &SiteName) -> Arc<[String]> {
        if *from == site("c") {
            return ["cookie".to_owned()].into();
        }
        Arc::default()
    }

    fn believes(&self, at: &SiteName) -> bool {
        *at != site("c")
    }
}

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub(crate) fn service(name: &str) -> ServiceName {
    ServiceName::new(name).unwrap()
}

pub(crate) fn mesh() -> MeshCa {
    MeshCa::create(Validity::days(NOW_MS / 1000, 3650)).unwrap()
}

pub(crate) fn identity(ca: &MeshCa, name: &str) -> Identity {
    let issued = ca.issue(&site(name), Validity::days(NOW_MS / 1000, 30)).unwrap();
    Identity::new(&ca.to_pem().certificate, &issued.certificate, &issued.key).unwrap()
}

impl Lab {
    /// A site with the example application and no identity in a mesh.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, None, |_| {})
    }

    pub(crate) fn in_mesh(name: &str, ca: &MeshCa) -> Self {
        Self::with(name, Some(identity(ca, name)), |_| {})
    }

    /// A site of a mesh, and what it may use of its services.
    pub(crate) fn in_mesh_with(name: &str, ca: &MeshCa, access: HashMap<String, Access>) -> Self {
        Self::of(name, Some(identity(ca, name)), |_| {}, Profile::example(), access)
    }

    pub(crate) fn with(name: &str, identity: Option<Identity>, adjust: impl FnOnce(&mut Limits)) -> Self {
        Self::of(name, identity, adjust, Profile::example(), HashMap::new())
    }

    /// A site with an application of one's own, and what it may use of its services.
    pub(crate) fn with_glue(name: &str, glue: &str, access: HashMap<String, Access>) -> Self {
        let profile = Profile::parse("glue.toml", glue).unwrap();
        Self::of(name, None, |_| {}, profile, access)
    }

    fn of(
        name: &str,
        identity: Option<Identity>,
        adjust: impl FnOnce(&mut Limits),
        profile: Profile,
        access: HashMap<String, Access>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut limits = Limits::default();
        adjust(&mut limits);
        let options = Options::new(Incarnation(1), &limits);
        let store = Store::with_engine(MemoryEngine::default(), &options).unwrap();
        let (spool, _) = Spool::open(dir.path(), &store, limits.spool_max_bytes).unwrap();
        let entropy = |bytes: &mut [u8]| -> std::io::Result<()> {
            bytes.fill(name.as_bytes()[0]);
            Ok(())
        };
        let key = SiteKey::open(&dir.path().join("site.key"), &entropy).unwrap();
        let (engine, _) = EngineHandle::new(site(name), limits.engine_queue_max);
        let surroundings = Around {
            profile: Arc::new(profile),
            limits,
            identity: identity.map(Arc::new),
            next: AtomicU8::new(0),
            access,
        };
        let core = Core {
            site: site(name),
            store,
            spool,
            key,
            surroundings: Arc::new(surroundings),
            presence: Arc::new(Presence::default()),
            engine,
            waiting: Waiting::default(),
            finished: Finished::default(),
            spooled: Spooled::default(),
            asks: Asks::default(),
            groups: crate::group_asks::GroupAsks::default(),
            own_intents: crate::group_asks::OwnIntents::default(),
            lives: crate::life::Lives::default(),
            calls: Calls::default(),
            commit_times: CommitTimes::default(),
            callers: Verifications::default(),
            comparisons: Comparisons::default(),
            missed: Missed::default(),
            life: crate::life::Life::new(cheops_replica::Site::new(site("here"), 1)),
            fenced: std::sync::atomic::AtomicU64::new(0),
            offload: cheops_net::Offload::default(),
        };
        Self {
            core: Arc::new(core),
            _dir: dir,
        }
    }

    /// Makes a set known here.
    pub(crate) fn know(&self, service: &str, kind: &str, meta: &str, local: Option<&str>, sites: &[&str]) {
        let row = SetRow {
            service: self::service(service),
            kind: kind.to_owned(),
            local_key: local.map(str::to_owned),
            name: None,
            head: Head {
                shown: meta.to_owned(),
                local: local.map(str::to_owned),
                sites: sites.iter().copied().map(site).collect(),
                standing: HeadStanding::Member,
                span: None,
                shares: Vec::new(),
                has_moved: false,
                begun: Some(1),
                held_hash: 0,
                deleted_ms: None,
                consistency: cheops_types::Consistency::Eventual,
            },
        };
        let meta = meta.to_owned();
        let put = self
            .core
            .store
            .write(move |session| session.put::<Sets>(&meta, &row));
        put.unwrap().wait().unwrap();
    }

    /// Puts a payload into the spool and lets a set refer to it.
    pub(crate) fn spool(&self, set: &str, content: &[u8]) -> cheops_store::PayloadRef {
        let mut writer = self.core.spool.begin().unwrap();
        writer.append(content).unwrap();
        let payload = writer.finish().unwrap();
        self.refer(set, &payload);
        *payload
    }

    pub(crate) fn refer(&self, set: &str, payload: &cheops_store::PayloadRef) {
        let (set, payload) = (MetaId::new(set), *payload);
        let retained = self
            .core
            .store
            .write(move |session| crate::fetch::retain(session, &set, &payload));
        retained.unwrap().wait().unwrap();
    }
}

/// A request as the application got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) service: String,
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    pub(crate) scope: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(found, _)| found == name);
        let (_, value) = found.next()?;
        assert_eq!(found.next(), None, "{name} came twice");
        Some(value)
    }
}

pub(crate) type Answer = Result<Response<Body>, NoAnswer>;

/// An application that answers what it is told to, in order.
#[derive(Default)]
pub(crate) struct FakeApplication {
    pub(crate) seen: RefCell<Vec<Seen>>,
    pub(crate) answers: RefCell<VecDeque<Answer>>,
}

impl FakeApplication {
    pub(crate) fn answering(answers: impl IntoIterator<Item = Answer>) -> Rc<Self> {
        Rc::new(Self {
            seen: RefCell::default(),
            answers: RefCell::new(answers.into_iter().collect()),
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands among failures")]
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Ok(response
        .body(Body::full(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap())
}

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let parsed = pairs
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    parsed.collect::<HeaderMap>()
}

pub(crate) fn failed(outcome: Outcome) -> NoAnswer {
    NoAnswer {
        outcome,
        is_broken: false,
        problem: Problem::new(Code::UpstreamFailed, "it is only a test"),
    }
}

impl Application for FakeApplication {
    fn call<'a>(
        &'a self,
        service: &'a ServiceName,
        request: Request<Body>,
        scope: &'a str,
    ) -> Later<'a, Answer> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
            self.seen.borrow_mut().push(Seen {
                service: service.to_string(),
                line: format!("{} {}", head.method, head.uri),
                headers: head
                    .headers
                    .iter()
                    .map(|(name, value)| (name.to_string(), text(value)))
                    .collect(),
                body: String::from_utf8_lossy(&body).into_owned(),
                scope: scope.to_owned(),
            });
            let next = self.answers.borrow_mut().pop_front();
            next.unwrap_or_else(|| Err(failed(Outcome::NotExecuted)))
        })
    }
}

/// Sites that answer as a function says.
pub(crate) struct FakePeers<F> {
    pub(crate) down: RefCell<HashSet<SiteName>>,
    pub(crate) answer: F,
}

impl<F: Fn(&SiteName, &str, Bytes) -> Answer + 'static> FakePeers<F> {
    pub(crate) fn new(answer: F) -> Rc<Self> {
        Rc::new(Self {
            down: RefCell::default(),
            answer,
        })
    }
}

impl<F: Fn(&SiteName, &str, Bytes) -> Answer + 'static> Peers for FakePeers<F> {
    fn ask<'a>(&'a self, site: &'a SiteName, request: Request<Body>, _is_long: bool) -> Later<'a, Answer> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            (self.answer)(site, &head.uri.to_string(), body)
        })
    }

    fn is_up(&self, site: &SiteName) -> bool {
        !self.down.borrow().contains(site)
    }
}

/// Runs something on a control runtime.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
