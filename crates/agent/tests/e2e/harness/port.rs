//! Ports that nobody else is given.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

const QUEUE_MAX: i32 = 4096;

/// A free port on loopback, kept for one process that will listen there.
///
/// The socket is bound and never listens: connections are refused until somebody else listens, and
/// the kernel gives the port to nobody who did not ask for it by number.
#[derive(Debug)]
pub(crate) struct Port {
    addr: SocketAddr,
    _held: Socket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .unwrap();
        let addr = socket.local_addr().unwrap().as_socket().unwrap();
        Self { addr, _held: socket }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Listens on a free port, with a queue that holds more connections than a test opens at once: one
/// that finds it full waits a second.
pub(super) fn listen() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .unwrap();
    socket.listen(QUEUE_MAX).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}
