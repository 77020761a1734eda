//! A caller's connection to a listener, HTTP/1.1 or HTTP/2, with or without TLS.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::TlsConnector;

use super::ServiceTls;

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

/// One connection. HTTP/2 ones can be cloned, to send at the same time.
pub(crate) struct Connection {
    sender: Sender,
    scheme: &'static str,
    addr: SocketAddr,
}

impl Connection {
    pub(crate) async fn http1(addr: SocketAddr) -> Self {
        Self::try_open(addr, false, None).await.unwrap()
    }

    /// Cleartext, by prior knowledge.
    pub(crate) async fn http2(addr: SocketAddr) -> Self {
        Self::try_open(addr, true, None).await.unwrap()
    }

    /// From another address than the others have.
    pub(crate) async fn http1_from(from: Ipv4Addr, addr: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.into(), 0)).unwrap();
        let stream = socket.connect(addr).await.unwrap();
        let _ = stream.set_nodelay(true);
        Self {
            sender: shake_hands(stream, false).await.unwrap(),
            scheme: "http",
            addr,
        }
    }

    pub(crate) async fn try_open(
        addr: SocketAddr,
        is_http2: bool,
        tls: Option<&ServiceTls>,
    ) -> Result<Self, String> {
        let stream = TcpStream::connect(addr)
            .await
            .map_err(|error| format!("{addr}: {error}"))?;
        let _ = stream.set_nodelay(true);
        let (sender, scheme) = match tls {
            None => (shake_hands(stream, is_http2).await?, "http"),
            Some(tls) => {
                let alpn: &[u8] = if is_http2 { b"h2" } else { b"http/1.1" };
                let name = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
                let stream = TlsConnector::from(tls.client(&[alpn]))
                    .connect(name, stream)
                    .await
                    .map_err(|error| error.to_string())?;
                (shake_hands(stream, is_http2).await?, "https")
            }
        };
        Ok(Self { sender, scheme, addr })
    }

    pub(crate) fn try_clone(&self) -> Option<Self> {
        match &self.sender {
            Sender::One(_) => None,
            Sender::Two(sender) => Some(Self {
                sender: Sender::Two(sender.clone()),
                ..*self
            }),
        }
    }

    /// Whether the other side closed it.
    pub(crate) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::One(sender) => sender.is_closed(),
            Sender::Two(sender) => sender.is_closed(),
        }
    }

    /// Sends a request whose URI is a path.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let told = |error: hyper::Error| format!("{error:?}");
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await.map_err(told)?;
                let host = self.addr.to_string().parse().map_err(|_| "no host".to_owned())?;
                request.headers_mut().entry(http::header::HOST).or_insert(host);
                sender.send_request(request).await.map_err(told)
            }
            Sender::Two(sender) => {
                sender.ready().await.map_err(told)?;
                let uri = format!("{}://{}{}", self.scheme, self.addr, request.uri());
                *request.uri_mut() = uri.parse().map_err(|_| format!("no uri: {uri}"))?;
                *request.version_mut() = http::Version::HTTP_2;
                sender.send_request(request).await.map_err(told)
            }
        }
    }
}

async fn shake_hands<S>(stream: S, is_http2: bool) -> Result<Sender, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = TokioIo::new(stream);
    let told = |error: hyper::Error| format!("{error:?}");
    if is_http2 {
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream)
            .await
            .map_err(told)?;
        tokio::spawn(connection);
        Ok(Sender::Two(sender))
    } else {
        let (sender, connection) = http1::handshake(stream).await.map_err(told)?;
        tokio::spawn(connection);
        Ok(Sender::One(sender))
    }
}
