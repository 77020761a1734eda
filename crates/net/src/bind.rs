//! Binding one address on every core.

use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

const BACKLOG: i32 = 1024;

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    pub address: SocketAddr,
    pub source: std::io::Error,
}

impl BindError {
    pub fn is_taken(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::AddrInUse
    }
}

/// One listening socket per core on the same address, among which the kernel spreads connections.
/// Port 0 chooses one free port for all.
pub fn bind(address: SocketAddr, cores: usize) -> Result<Vec<TcpListener>, BindError> {
    if address.port() != 0 {
        // Sockets that share a port would also share it with another agent of the same user: an
        // exclusive socket first shows whether the address is free.
        bound(address, false).map_err(|source| BindError { address, source })?;
    }
    rebind(address, cores)
}

/// Like [`bind`] for an address that this process holds already and is about to let go of.
pub fn rebind(address: SocketAddr, cores: usize) -> Result<Vec<TcpListener>, BindError> {
    let fail = |source| BindError { address, source };
    let mut address = address;
    let mut listeners = Vec::with_capacity(cores);
    for _ in 0..cores.max(1) {
        let socket = bound(address, true).map_err(fail)?;
        socket.listen(BACKLOG).map_err(fail)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr().map_err(fail)?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn bound(address: SocketAddr, shared: bool) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_address_is_an_error_although_ports_are_shared() {
        let first = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(address, first[1].local_addr().unwrap());
        assert!(bind(address, 2).unwrap_err().is_taken());
    }
}
