//! Ports for programs that cannot be given port 0.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Result, bail};

/// Below what the kernel gives to clients, so that no connection takes a port before its server does.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_500;
const STEP: u16 = 250;

/// A block of ports on an address that nobody listened on a moment ago.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) base: u16,
    ip: IpAddr,
}

impl Ports {
    /// The first block in which all of `offsets` are free on `127.0.0.1`.
    pub(crate) fn find(offsets: &(impl Iterator<Item = u16> + Clone)) -> Result<Self> {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let is_free = |port| TcpListener::bind((ip, port)).is_ok();
        for base in (FIRST..=LAST).step_by(STEP.into()) {
            if offsets.clone().all(|offset| is_free(base + offset)) {
                return Ok(Self { base, ip });
            }
        }
        bail!("no free block of ports between {FIRST} and {LAST}: end what listens there")
    }

    pub(crate) fn at(self, offset: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.base + offset)
    }
}
