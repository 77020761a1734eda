//! The services of a site and where they are.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context as _, Result};

/// A service, by the name that scopes and the catalogue use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Identity,
    Image,
    Compute,
    Placement,
    Network,
}

/// Which of a service's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// The service's own, without an agent.
    Itself,
    /// The agent's, for users.
    Public,
    /// The agent's, for the other services of the site.
    Internal,
}

impl Service {
    pub(super) const ALL: [Self; 5] = [
        Self::Identity,
        Self::Image,
        Self::Compute,
        Self::Placement,
        Self::Network,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Image => "image",
            Self::Compute => "compute",
            Self::Placement => "placement",
            Self::Network => "network",
        }
    }

    /// What the script calls it.
    pub(super) fn project(self) -> &'static str {
        match self {
            Self::Identity => "keystone",
            Self::Image => "glance",
            Self::Compute => "nova",
            Self::Placement => "placement",
            Self::Network => "neutron",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Identity => 5000,
            Self::Image => 9292,
            Self::Compute => 8774,
            Self::Placement => 8778,
            Self::Network => 9696,
        }
    }
}

/// A loopback network of the suite's own, one address per site: services keep the ports that everybody knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    network: u8,
}

const PEER_PORT: u16 = 7443;
const FIRST: u8 = 77;
const LAST: u8 = 99;

impl Addresses {
    /// The first network on which nobody listened a moment ago.
    pub(super) fn find(sites: usize) -> Result<Self> {
        let is_free = |addresses: &Self| {
            (1..=sites).all(|site| {
                let taken = |address: SocketAddr| TcpListener::bind(address).is_err();
                let doors = [Door::Itself, Door::Public, Door::Internal];
                let mut all = Service::ALL
                    .into_iter()
                    .flat_map(|service| doors.map(|door| addresses.of(site, service, door)));
                !all.any(taken) && !taken(addresses.peer(site))
            })
        };
        (FIRST..=LAST)
            .map(|network| Self { network })
            .find(is_free)
            .with_context(|| {
                format!("somebody listens on every network from 127.0.{FIRST}.0 to 127.0.{LAST}.0")
            })
    }

    /// What the addresses of all sites begin with, in the script's words.
    pub(super) fn prefix(self) -> String {
        format!("127.0.{}.", self.network)
    }

    pub(super) fn of(self, site: usize, service: Service, door: Door) -> SocketAddr {
        let port = match door {
            Door::Itself => service.port(),
            Door::Public => 10_000 + service.port(),
            Door::Internal => 20_000 + service.port(),
        };
        self.at(site, port)
    }

    pub(super) fn peer(self, site: usize) -> SocketAddr {
        self.at(site, PEER_PORT)
    }

    fn at(self, site: usize, port: u16) -> SocketAddr {
        // Sites are few and numbered from 1.
        SocketAddr::from((Ipv4Addr::new(127, 0, self.network, site as u8), port))
    }
}
