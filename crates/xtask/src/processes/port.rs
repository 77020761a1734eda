//! Ports that nobody else is given.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result};
use socket2::{Domain, Protocol, Socket, Type};

/// A free port on loopback, kept for a process that listens there, also after it was killed and started again.
///
/// The socket is bound and never listens: connections are refused until somebody else listens, and the kernel
/// gives the port to nobody who did not ask for it by number.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) addr: SocketAddr,
    _held: Socket,
}

impl Port {
    pub(crate) fn reserve() -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        let addr = socket.local_addr()?.as_socket().context("an address of IP")?;
        Ok(Self { addr, _held: socket })
    }
}
