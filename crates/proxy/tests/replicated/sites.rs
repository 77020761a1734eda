//! Sites `a`, `b`, `c`, each with one core, a service `A` and replication.

use std::{
    collections::HashMap,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use arc_swap::ArcSwap;
use cheops_glue::Profile;
use cheops_mesh::{MeshCa, Validity};
use cheops_net::{
    Command, CoreHandle, CoreOptions, MeshTls, ServeOptions, UpstreamHttp, UpstreamTarget, bind, spawn_core,
};
use cheops_proxy::{Correlation, KeyMaker, Proxy, Role, ServiceEntry, Shared, Tag, World};
use cheops_types::{Distances, Limits, ServiceName, SiteName};

use super::{
    client::{self, Answer},
    coordinator::Fake,
    service::{Reaction, Seen, Service},
};

/// Long ago, so that certificates of a hundred years are good.
const ISSUED_UNIX_S: u64 = 1_700_000_000;

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

pub(crate) struct Site {
    pub(crate) public: SocketAddr,
    pub(crate) internal: SocketAddr,
    pub(crate) service: Service,
    pub(crate) replication: Arc<Fake>,
    pub(crate) shared: Arc<Shared>,
    core: Option<CoreHandle<Arc<Tag>>>,
}

impl Site {
    /// A request to the public port of service `A`.
    pub(crate) fn send(&self, head: &str, body: &str) -> Answer {
        client::send(self.public, head, body)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(core) = self.core.take() {
            core.send(Command::Stop);
            core.join();
        }
    }
}

/// One site with the ordinary conventions.
pub(crate) fn one(react: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Site {
    let mut sites = start(&["a"], &Arc::new(Profile::plain()), vec![Box::new(react)]);
    sites.remove(0)
}

pub(crate) fn start(names: &[&str], profile: &Arc<Profile>, reactions: Vec<Reaction>) -> Vec<Site> {
    start_within(&Limits::default(), names, profile, reactions)
}

pub(crate) fn start_within(
    limits: &Limits,
    names: &[&str],
    profile: &Arc<Profile>,
    reactions: Vec<Reaction>,
) -> Vec<Site> {
    let validity = Validity::days(ISSUED_UNIX_S, 36_500);
    let ca = MeshCa::create(validity).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let ports: Vec<TcpListener> = names.iter().map(|_| bind(any, 1).unwrap().remove(0)).collect();
    let address = |port: &TcpListener| port.local_addr().unwrap().to_string();
    let peers: Vec<(SiteName, String)> = names
        .iter()
        .zip(&ports)
        .map(|(name, port)| (site(name), address(port)))
        .collect();
    let sites = names.iter().zip(ports).zip(reactions);
    sites
        .map(|((name, port), react)| {
            let issued = ca.issue(&site(name), validity).unwrap();
            let (ca, cert, key) = (ca.to_pem().certificate, issued.certificate, issued.key);
            let mesh = MeshTls::new(&site(name), ca.as_bytes(), cert.as_bytes(), key.as_bytes()).unwrap();
            begin(limits, name, &peers, port, mesh, profile.clone(), react)
        })
        .collect()
}

fn begin(
    limits: &Limits,
    name: &str,
    peers: &[(SiteName, String)],
    peer_port: TcpListener,
    mesh: MeshTls,
    profile: Arc<Profile>,
    react: Reaction,
) -> Site {
    let service = Service::start(react);
    let entry = ServiceEntry {
        name: ServiceName::new("A").unwrap(),
        target: UpstreamTarget {
            host: "127.0.0.1".to_owned(),
            port: service.port,
            tls: None,
            http: UpstreamHttp::Http1,
        },
        is_offered: true,
        vouched: None,
        vouch: Vec::new(),
    };
    let tls = mesh.server().unwrap();
    let world = World {
        site: site(name),
        sites: peers.iter().map(|(site, _)| site.clone()).collect(),
        services: HashMap::from([(entry.name.clone(), Arc::new(entry))]),
        peers: peers
            .iter()
            .filter(|(peer, _)| *peer != site(name))
            .cloned()
            .collect(),
        unbelieved: Vec::new(),
        withheld: HashMap::new(),
        hedged_freely: Vec::new(),
        mesh: Some(mesh),
        profile,
        limits: limits.clone(),
        keep_peers_warm: false,
    };
    let replication = Arc::new(Fake::default());
    let distances = Arc::new(ArcSwap::from_pointee(Distances::default()));
    let correlation = Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]));
    let shared = Shared::new(world, distances, correlation, replication.presence.clone());
    shared.attach(replication.clone());
    let options = CoreOptions {
        name: format!("site-{name}"),
        drain_timeout_ms: 1000,
        unix_s: || 0,
    };
    let for_core = shared.clone();
    let core = spawn_core(options, move |clock| Proxy::new(for_core, clock)).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listen = |id, listener: TcpListener, role, tls| {
        let address = listener.local_addr().unwrap();
        core.send(Command::Listen {
            id,
            listener,
            tls,
            options: ServeOptions::for_clients(limits),
            exempt: Arc::new([]),
            tag: Arc::new(Tag {
                role,
                service: (role != Role::Peer).then(|| ServiceName::new("A").unwrap()),
            }),
        });
        address
    };
    listen(0, peer_port, Role::Peer, Some(tls));
    Site {
        public: listen(1, bind(any, 1).unwrap().remove(0), Role::Public, None),
        internal: listen(2, bind(any, 1).unwrap().remove(0), Role::Internal, None),
        service,
        replication,
        shared,
        core: Some(core),
    }
}
