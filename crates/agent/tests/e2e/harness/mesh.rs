//! Several sites with links between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use cheops_example::Carry;
use cheops_relay::Relay;
use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;

use super::{
    Port, ServiceTls, Site,
    agent::run_cheops,
    application::{Application, Instance},
    site::Listening,
};

const SERVICES: [&str; 2] = ["A", "B"];

/// Running sites `site1`, `site2`, ... Numbers count from 1. Every site has services A and B.
pub(crate) struct Mesh {
    // First, so that agents end before what they are connected to.
    sites: Vec<Site>,
    links: BTreeMap<(usize, usize), Relay>,
    tls: Option<ServiceTls>,
    upstreams: BTreeMap<(usize, String), SocketAddr>,
    _peers: Vec<Port>,
    _application: Application,
    _dir: TempDir,
}

/// What a mesh is to be like.
pub(crate) struct MeshBuilder {
    count: usize,
    glue: String,
    workers: usize,
    carry: Carry,
    limits: BTreeMap<String, u64>,
    upstreams: BTreeMap<(usize, String), SocketAddr>,
    data_dirs: BTreeMap<usize, PathBuf>,
    token: Option<String>,
    cut: BTreeSet<(usize, usize)>,
    tls: Option<(String, ServiceTls)>,
    one_address: bool,
    credential: Option<(String, String)>,
    files_max: Option<u64>,
    exempt: Option<String>,
}

impl Mesh {
    /// The application of every site is the example's unless the test gives its own, and A asks B at
    /// the site's internal listener. Heartbeats are quick, so that tests are.
    pub(crate) fn of(count: usize) -> MeshBuilder {
        let limits = [("heartbeat_interval_ms", 100), ("drain_timeout_ms", 2_000)];
        MeshBuilder {
            count,
            glue: "example".to_owned(),
            workers: 2,
            carry: Carry::default(),
            limits: limits.map(|(name, value)| (name.to_owned(), value)).into(),
            upstreams: BTreeMap::new(),
            data_dirs: BTreeMap::new(),
            token: None,
            cut: BTreeSet::new(),
            tls: None,
            one_address: false,
            credential: None,
            files_max: None,
            exempt: None,
        }
    }

    pub(crate) fn site(&self, number: usize) -> &Site {
        &self.sites[number - 1]
    }

    pub(crate) fn site_mut(&mut self, number: usize) -> &mut Site {
        &mut self.sites[number - 1]
    }

    /// Where users reach A at a site.
    pub(crate) fn a(&self, number: usize) -> SocketAddr {
        self.site(number).public("A")
    }

    /// Where users reach B at a site.
    pub(crate) fn b(&self, number: usize) -> SocketAddr {
        self.site(number).public("B")
    }

    /// Where the application of a site answers, without the agent.
    pub(crate) fn application(&self, number: usize, service: &str) -> SocketAddr {
        self.upstreams[&(number, service.to_owned())]
    }

    /// Cuts all links from and to a site.
    pub(crate) fn isolate(&self, number: usize) {
        self.links_of(number).for_each(Relay::cut);
    }

    /// Ends what [`Mesh::isolate`] did.
    pub(crate) fn rejoin(&self, number: usize) {
        self.links_of(number).for_each(Relay::heal);
    }

    fn links_of(&self, number: usize) -> impl Iterator<Item = &Relay> {
        self.links
            .iter()
            .filter(move |((from, to), _)| *from == number || *to == number)
            .map(|(_, link)| link)
    }

    /// The link that the agent of one site uses to reach another's. The way back is a link of its own.
    pub(crate) fn link(&self, from: usize, to: usize) -> &Relay {
        &self.links[&(from, to)]
    }

    /// The trust that callers of a service with TLS need.
    pub(crate) fn tls(&self) -> &ServiceTls {
        self.tls.as_ref().expect("the mesh was built with TLS")
    }
}

impl MeshBuilder {
    /// `plain`, `example` or the text of a glue file.
    pub(crate) fn glue(mut self, glue: &str) -> Self {
        glue.clone_into(&mut self.glue);
        self
    }

    pub(crate) fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// What the example's A passes on.
    pub(crate) fn carry(mut self, carry: Carry) -> Self {
        self.carry = carry;
        self
    }

    pub(crate) fn limit(mut self, name: &str, value: u64) -> Self {
        self.limits.insert(name.to_owned(), value);
        self
    }

    /// A service of the test's own instead of the example's.
    pub(crate) fn upstream(mut self, site: usize, service: &str, addr: SocketAddr) -> Self {
        self.upstreams.insert((site, service.to_owned()), addr);
        self
    }

    /// Where the agent of a site keeps its data.
    pub(crate) fn data_dir(mut self, site: usize, dir: &Path) -> Self {
        self.data_dirs.insert(site, dir.to_owned());
        self
    }

    /// The example's services want this token. Each site's are in a file of its own, see
    /// [`Site::token_file`].
    pub(crate) fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self.carry("traceparent,authorization".parse().unwrap())
    }

    /// The agents' own credential for a service, in a file of each site, see [`Site::credential_file`].
    pub(crate) fn credential(mut self, service: &str, credential: &str) -> Self {
        self.credential = Some((service.to_owned(), credential.to_owned()));
        self
    }

    /// How many files each agent may have open.
    pub(crate) fn files_max(mut self, max: u64) -> Self {
        self.files_max = Some(max);
        self
    }

    /// Addresses whose budgets do not count.
    pub(crate) fn exempt(mut self, network: &str) -> Self {
        self.exempt = Some(network.to_owned());
        self
    }

    /// The link is cut before anybody uses it.
    pub(crate) fn cut(mut self, from: usize, to: usize) -> Self {
        self.cut.insert((from, to));
        self
    }

    /// TLS on the listeners of a service, at all sites.
    pub(crate) fn tls(mut self, service: &str) -> Self {
        self.tls = Some((service.to_owned(), ServiceTls::make()));
        self
    }

    /// One address per service for users and services.
    pub(crate) fn one_address(mut self) -> Self {
        self.one_address = true;
        self
    }

    /// Starts everything and waits until every agent sees every other over links that are not cut.
    pub(crate) async fn start(self) -> Mesh {
        raise_open_files();
        let dir = tempfile::Builder::new().prefix("cheops-e2e-").tempdir().unwrap();
        let mut sites: Vec<_> = (1..=self.count)
            .map(|number| self.site(number, dir.path()))
            .collect();
        let peers: Vec<_> = (1..=self.count).map(|_| Port::reserve()).collect();
        let links = self.links(&peers);
        let application = self.application(&sites);
        self.write_files(dir.path(), &sites, &peers, &links, &application.1);
        sites.iter_mut().for_each(Site::start);
        for (from, site) in (1..).zip(&mut sites) {
            let seen = (1..=self.count).filter(|to| *to != from && !self.cut.contains(&(from, *to)));
            let seen: Vec<_> = seen.map(|to| format!("site{to}")).collect();
            site.ready(&seen).await;
        }
        Mesh {
            sites,
            links,
            _peers: peers,
            tls: self.tls.map(|(_, tls)| tls),
            upstreams: application.1,
            _application: application.0,
            _dir: dir,
        }
    }

    fn site(&self, number: usize, dir: &Path) -> Site {
        let name = format!("site{number}");
        let dir = dir.join(&name);
        fs::create_dir(&dir).unwrap();
        let services = SERVICES.map(|service| {
            let listening = Listening {
                public: Port::reserve(),
                internal: (!self.one_address).then(Port::reserve),
            };
            (service.to_owned(), listening)
        });
        let data_dir = self.data_dirs.get(&number).cloned();
        let mut site = Site::new(
            name,
            data_dir.unwrap_or_else(|| dir.join("data")),
            dir,
            services.into(),
        );
        site.limit_files(self.files_max);
        if let Some(token) = &self.token {
            fs::write(site.token_file(), token).unwrap();
        }
        site
    }

    fn links(&self, peers: &[Port]) -> BTreeMap<(usize, usize), Relay> {
        let mut links = BTreeMap::new();
        for from in 1..=self.count {
            for to in (1..=self.count).filter(|to| *to != from) {
                let any = SocketAddr::from(([127, 0, 0, 1], 0));
                let link = Relay::bind(any, peers[to - 1].addr()).unwrap();
                if self.cut.contains(&(from, to)) {
                    link.cut();
                }
                links.insert((from, to), link);
            }
        }
        links
    }

    /// Starts the example's services where the test gives none; all upstream addresses.
    fn application(&self, sites: &[Site]) -> (Application, BTreeMap<(usize, String), SocketAddr>) {
        let mut upstreams = self.upstreams.clone();
        let mut instances = Vec::new();
        for (number, site) in (1..).zip(sites) {
            for service in SERVICES {
                let key = (number, service.to_owned());
                if upstreams.contains_key(&key) {
                    continue;
                }
                let data_dir = site.dir().join(service);
                let mut instance = match service {
                    "A" => Instance::a(number, site.internal("B"), &self.carry, data_dir),
                    _ => Instance::b(number, data_dir),
                };
                if self.token.is_some() {
                    instance = instance.token_file(site.token_file());
                }
                upstreams.insert(key, instance.addr());
                instances.push(instance);
            }
        }
        (Application::start(instances), upstreams)
    }

    fn write_files(
        &self,
        dir: &Path,
        sites: &[Site],
        peers: &[Port],
        links: &BTreeMap<(usize, usize), Relay>,
        upstreams: &BTreeMap<(usize, String), SocketAddr>,
    ) {
        let ca = dir.join("ca");
        let ca = ca.to_str().unwrap();
        run_cheops(&["ca", "init", "--dir", ca]);
        for (number, site) in (1..).zip(sites) {
            let out = site.dir().to_str().unwrap();
            run_cheops(&["ca", "issue", &site.name, "--dir", ca, "--out", out]);
            if let Some((_, tls)) = &self.tls {
                tls.write(site.dir());
            }
            let glue = match self.glue.as_str() {
                name @ ("plain" | "example") => name,
                text => {
                    fs::write(site.dir().join("glue.toml"), text).unwrap();
                    "glue.toml"
                }
            };
            let text = self.config(number, site, glue, peers[number - 1].addr(), links, upstreams);
            fs::write(site.config_path(), text).unwrap();
        }
    }

    fn config(
        &self,
        number: usize,
        site: &Site,
        glue: &str,
        peer: SocketAddr,
        links: &BTreeMap<(usize, usize), Relay>,
        upstreams: &BTreeMap<(usize, String), SocketAddr>,
    ) -> String {
        let (name, workers) = (&site.name, self.workers);
        let data_dir = site.data_dir().display();
        let exempt = self
            .exempt
            .iter()
            .map(|network| format!("exempt_clients = [\"{network}\"]\n"));
        let exempt: String = exempt.collect();
        let mut text = format!(
            "site = \"{name}\"\ndata_dir = \"{data_dir}\"\nworkers = {workers}\nglue = \"{glue}\"\n{exempt}\n\
             [peer]\nlisten = \"{peer}\"\nca = \"ca.pem\"\ncert = \"{name}.pem\"\nkey = \"{name}.key\"\n\n[limits]\n"
        );
        for (limit, value) in &self.limits {
            writeln!(text, "{limit} = {value}").unwrap();
        }
        for service in SERVICES {
            let upstream = upstreams[&(number, service.to_owned())];
            writeln!(text, "\n[services.{service}]\nupstream = \"http://{upstream}\"").unwrap();
            if self.one_address {
                writeln!(text, "listen = \"{}\"", site.public(service)).unwrap();
            } else {
                writeln!(text, "public = \"{}\"", site.public(service)).unwrap();
                writeln!(text, "internal = \"{}\"", site.internal(service)).unwrap();
            }
            if let Some((_, credential)) = self.credential.as_ref().filter(|(of, _)| of == service) {
                let file = site.credential_file();
                fs::write(&file, credential).unwrap();
                fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
                writeln!(text, "credential = \"{}\"", file.display()).unwrap();
            }
            if self.tls.as_ref().is_some_and(|(with_tls, _)| with_tls == service) {
                text.push_str("tls = { cert = \"tls.pem\", key = \"tls.key\" }\n");
            }
        }
        for ((_, to), link) in links.iter().filter(|((from, _), _)| *from == number) {
            writeln!(text, "\n[sites.site{to}]\naddress = \"{}\"", link.addr()).unwrap();
        }
        text
    }
}

/// Tests with many connections need more open files than some systems give at first; agents inherit
/// the limit.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
