//! The agent's open addresses, and how they follow the configuration.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use cheops_net::{BindError, Command, ListenerId, ServeOptions, bind, rebind, server_tls};
use cheops_proxy::{Role, Tag};
use cheops_types::{Limits, ServiceName};

use super::{
    Cores,
    world::{mesh, read},
};
use crate::config::Config;

/// Everything that makes a listener what it is: two equal ones are the same listener.
#[derive(Clone, PartialEq, Eq)]
struct Spec {
    address: SocketAddr,
    role: Role,
    service: Option<ServiceName>,
    /// The contents of its certificate, key and CA files.
    tls: Vec<Vec<u8>>,
}

impl Spec {
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
struct Place {
    role: Role,
    service: Option<ServiceName>,
    address: SocketAddr,
}

/// Where all open listeners are, for those that tell.
#[derive(Clone, Default)]
pub(super) struct Addresses(Arc<ArcSwap<Vec<Place>>>);

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
    limits: Limits,
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
        let mut bound = Vec::new();
        for spec in &wanted {
            if !self.open.iter().any(|open| open.spec == *spec) {
                bound.push(self.bind(spec, config)?);
            }
        }
        Ok(Prepared {
            wanted,
            bound,
            limits: config.limits.clone(),
        })
    }

    /// Opens what is new, leaves what is the same with its connections, closes what is gone. Returns
    /// what changed, one sentence each.
    pub(super) fn commit(&mut self, prepared: Prepared) -> Vec<String> {
        let Prepared {
            wanted,
            bound,
            limits,
        } = prepared;
        let mut changes = Vec::new();
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
        let places = self.open.iter().map(|open| Place {
            role: open.spec.role,
            service: open.spec.service.clone(),
            address: open.address,
        });
        self.addresses.0.store(Arc::new(places.collect()));
        changes
    }

    fn bind(&self, spec: &Spec, config: &Config) -> anyhow::Result<Bound> {
        let tls = match (spec.role, spec.tls.as_slice()) {
            (Role::Peer, _) => match mesh(config)? {
                Some(mesh) => Some(mesh.server()?),
                None => None,
            },
            (_, [cert, key]) => Some(server_tls(cert, key).with_context(|| spec.key())?),
            _ => None,
        };
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
            Some(files) => vec![read(&files.cert)?, read(&files.key)?],
            None => Vec::new(),
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
        let tls = vec![read(&peer.ca)?, read(&peer.cert)?, read(&peer.key)?];
        specs.push(Spec {
            address: peer.listen,
            role: Role::Peer,
            service: None,
            tls,
        });
    }
    Ok(specs)
}
