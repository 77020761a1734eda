//! The agent's open addresses, and how they follow the configuration.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use cheops_net::{BindError, Command, ListenerId, Network, Revoked, ServeOptions, bind, rebind, server_tls};
use cheops_proxy::{Role, Tag};
use cheops_types::{Limits, ServiceName};

use super::{
    Cores,
    world::{mesh, read},
};
use crate::config::Config;

/// Everything that makes a listener what it is.
#[derive(Clone, PartialEq, Eq)]
struct Spec {
    address: SocketAddr,
    role: Role,
    service: Option<ServiceName>,
    tls: Option<SpecTls>,
}

/// The contents of the files that a listener's TLS is made of.
#[derive(Clone, PartialEq, Eq)]
struct SpecTls {
    cert: Vec<u8>,
    key: Vec<u8>,
    /// Whose certificates clients may show.
    client_ca: Option<Vec<u8>>,
    /// Those that do not count any more: connections that came in with one end with the listener.
    revoked: Revoked,
}

impl Spec {
    /// Whether both are the same listener. Another certificate for users does not make it another one:
    /// connections that are open stay open with the one that they have seen. Whom the listener trusts does.
    fn is_same(&self, other: &Self) -> bool {
        let trust = |spec: &Self| spec.tls.as_ref().map(|tls| tls.client_ca.clone());
        let same_place =
            (self.address, self.role, &self.service) == (other.address, other.role, &other.service);
        match self.role {
            Role::Peer => self == other,
            _ => same_place && trust(self) == trust(other),
        }
    }

    /// The key in the configuration.
    fn key(&self) -> String {
        let name = match self.role {
            Role::Public => "public",
            Role::Internal => "internal",
            Role::Shared => "listen",
            Role::Peer => return "peer.listen".to_owned(),
        };
        format!("services.{}.{name}", self.service.as_deref().unwrap_or_default())
    }
}

struct Open {
    id: ListenerId,
    spec: Spec,
    /// The one in use: port 0 of the configuration is the port that was found.
    address: SocketAddr,
}

/// Where one open listener is.
struct Listening {
    role: Role,
    service: Option<ServiceName>,
    address: SocketAddr,
}

/// Where all open listeners are, for those that tell.
#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<ArcSwap<Vec<Listening>>>);

impl Addresses {
    pub(super) fn of(&self, service: &ServiceName, role: Role) -> Option<SocketAddr> {
        let places = self.0.load();
        let mut places = places.iter();
        places
            .find(|place| place.role == role && place.service.as_ref() == Some(service))
            .map(|place| place.address)
    }
}

/// A listener that is bound on every core but not yet handed to one.
struct Bound {
    spec: Spec,
    address: SocketAddr,
    sockets: Vec<std::net::TcpListener>,
    tls: Option<Arc<rustls::ServerConfig>>,
}

/// What a configuration asks for, with the new addresses bound.
pub(super) struct Prepared {
    wanted: Vec<Spec>,
    bound: Vec<Bound>,
    /// New certificates of listeners that stay.
    renewed: Vec<(ListenerId, Spec, Arc<rustls::ServerConfig>)>,
    limits: Limits,
    exempt: Arc<[Network]>,
}

pub(super) struct Listeners {
    cores: Cores,
    open: Vec<Open>,
    next_id: ListenerId,
    addresses: Addresses,
}

impl Listeners {
    pub(super) fn new(cores: Cores) -> Self {
        Self {
            cores,
            open: Vec::new(),
            next_id: 0,
            addresses: Addresses::default(),
        }
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }

    /// Binds what is new. Nothing changes until [`Listeners::commit`].
    pub(super) fn prepare(&self, config: &Config) -> anyhow::Result<Prepared> {
        let wanted = specs(config)?;
        let (mut bound, mut renewed) = (Vec::new(), Vec::new());
        for spec in &wanted {
            match self.open.iter().find(|open| open.spec.is_same(spec)) {
                None => bound.push(self.bind(spec, config)?),
                Some(open) if open.spec == *spec => {}
                Some(open) => {
                    if let Some(tls) = tls(spec, config)? {
                        renewed.push((open.id, spec.clone(), tls));
                    }
                }
            }
        }
        Ok(Prepared {
            wanted,
            bound,
            renewed,
            limits: config.limits.clone(),
            exempt: config.exempt_clients.as_slice().into(),
        })
    }

    /// Opens what is new, leaves what is the same with its connections, closes what is gone. Returns
    /// what changed, one sentence each.
    pub(super) fn commit(&mut self, prepared: Prepared) -> Vec<String> {
        let Prepared {
            wanted,
            bound,
            renewed,
            limits,
            exempt,
        } = prepared;
        let mut changes = Vec::new();
        for (id, spec, tls) in renewed {
            changes.push(format!("{} has a new certificate", spec.key()));
            for core in self.cores.iter() {
                core.send(Command::Renew { id, tls: tls.clone() });
            }
            if let Some(open) = self.open.iter_mut().find(|open| open.id == id) {
                open.spec = spec;
            }
        }
        for Bound {
            spec,
            address,
            sockets,
            tls,
        } in bound
        {
            self.next_id += 1;
            changes.push(format!("{} listens on {address}", spec.key()));
            let options = match spec.role {
                Role::Peer => ServeOptions::for_peers(&limits),
                _ => ServeOptions::for_clients(&limits),
            };
            let exempt = match spec.role {
                // The site's own services have few addresses and all of their callers' requests.
                Role::Internal => Network::ALL.as_slice().into(),
                _ => exempt.clone(),
            };
            let tag = Arc::new(Tag {
                role: spec.role,
                service: spec.service.clone(),
            });
            for (core, listener) in self.cores.iter().zip(sockets) {
                core.send(Command::Listen {
                    id: self.next_id,
                    listener,
                    tls: tls.clone(),
                    options,
                    exempt: exempt.clone(),
                    tag: tag.clone(),
                });
            }
            self.open.push(Open {
                id: self.next_id,
                spec,
                address,
            });
        }
        self.open.retain(|open| {
            let stays = wanted.contains(&open.spec);
            if !stays {
                changes.push(format!(
                    "{} no longer listens on {} as before",
                    open.spec.key(),
                    open.address
                ));
                for core in self.cores.iter() {
                    core.send(Command::Unlisten { id: open.id });
                }
            }
            stays
        });
        let places = self.open.iter().map(|open| Listening {
            role: open.spec.role,
            service: open.spec.service.clone(),
            address: open.address,
        });
        self.addresses.0.store(Arc::new(places.collect()));
        changes
    }

    fn bind(&self, spec: &Spec, config: &Config) -> anyhow::Result<Bound> {
        let tls = tls(spec, config)?;
        // An address that this agent holds already is taken by itself, which is no conflict.
        let is_own = self.open.iter().any(|open| open.address == spec.address);
        let cores = self.cores.len();
        let sockets = if is_own {
            rebind(spec.address, cores)
        } else {
            bind(spec.address, cores)
        };
        let sockets = sockets.map_err(|error| explain(&error, spec, config))?;
        let address = match sockets.first() {
            Some(socket) => socket.local_addr().with_context(|| spec.key())?,
            None => spec.address,
        };
        Ok(Bound {
            spec: spec.clone(),
            address,
            sockets,
            tls,
        })
    }
}

fn tls(spec: &Spec, config: &Config) -> anyhow::Result<Option<Arc<rustls::ServerConfig>>> {
    match (spec.role, &spec.tls) {
        (Role::Peer, _) => match mesh(config)? {
            Some(mesh) => Ok(Some(mesh.server()?)),
            None => Ok(None),
        },
        (_, None) => Ok(None),
        (_, Some(tls)) => {
            let tls = server_tls(&tls.cert, &tls.key, tls.client_ca.as_deref());
            tls.map(Some).with_context(|| spec.key())
        }
    }
}

fn explain(error: &BindError, spec: &Spec, config: &Config) -> anyhow::Error {
    let (key, file) = (spec.key(), config.path.display());
    if error.is_taken() {
        anyhow::anyhow!(
            "{} is taken by another program: stop that program (`ss -ltnp 'sport = :{}'` names it), or set another address for `{key}` in {file}",
            error.address,
            error.address.port(),
        )
    } else {
        anyhow::anyhow!("{error}: set an address of this machine for `{key}` in {file}")
    }
}

fn specs(config: &Config) -> anyhow::Result<Vec<Spec>> {
    let mut specs = Vec::new();
    for (name, service) in &config.services {
        let tls = match &service.tls {
            Some(files) => Some(SpecTls {
                cert: read(&files.cert)?,
                key: read(&files.key)?,
                client_ca: files.client_ca.as_deref().map(read).transpose()?,
                revoked: Revoked::default(),
            }),
            None => None,
        };
        for (role, address) in [
            (Role::Public, service.public),
            (Role::Internal, service.internal),
            (Role::Shared, service.shared),
        ] {
            if let Some(address) = address {
                specs.push(Spec {
                    address,
                    role,
                    service: Some(name.clone()),
                    tls: tls.clone(),
                });
            }
        }
    }
    if let Some(peer) = &config.peer {
        let tls = SpecTls {
            cert: read(&peer.cert)?,
            key: read(&peer.key)?,
            client_ca: Some(read(&peer.ca)?),
            revoked: peer.revoked.clone(),
        };
        specs.push(Spec {
            address: peer.listen,
            role: Role::Peer,
            service: None,
            tls: Some(tls),
        });
    }
    Ok(specs)
}
