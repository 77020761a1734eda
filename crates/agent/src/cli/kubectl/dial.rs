//! Connections to the server, as kubectl would make them.

use std::{io, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time,
};
use tokio_rustls::TlsConnector;

use super::{kubeconfig::Server, proxy::Proxy, trust};

/// As long as kubectl waits for a connection.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What a proxy may say before it lets through.
const PROXY_ANSWER_MAX_BYTES: usize = 8192;

/// A connection, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Makes connections to one server.
pub(super) struct Dialer {
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    proxy: Option<Proxy>,
}

impl Dialer {
    pub(super) fn new(server: &Server) -> anyhow::Result<Self> {
        let tls = if server.tls {
            let name = server.tls_name.as_deref().unwrap_or(&server.host);
            let name = ServerName::try_from(name.to_owned())
                .map_err(|_| anyhow!("`{name}` is no name that a certificate can have"))?;
            Some((trust::client(server)?, name))
        } else {
            None
        };
        Ok(Self {
            host: server.host.clone(),
            port: server.port,
            tls,
            proxy: Proxy::of(server)?,
        })
    }

    pub(super) async fn dial(&self) -> anyhow::Result<Box<dyn Stream>> {
        time::timeout(TIMEOUT, self.connect())
            .await
            .unwrap_or_else(|_| Err(anyhow!("it did not answer in time")))
    }

    async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let stream = match &self.proxy {
            Some(proxy) => self.tunnel(proxy).await?,
            None => TcpStream::connect((&*self.host, self.port)).await?,
        };
        stream.set_nodelay(true)?;
        match &self.tls {
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                Ok(Box::new(connector.connect(name.clone(), stream).await?))
            }
            None => Ok(Box::new(stream)),
        }
    }

    async fn tunnel(&self, proxy: &Proxy) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect((&*proxy.host, proxy.port))
            .await
            .with_context(|| format!("the proxy {proxy} cannot be reached"))?;
        stream
            .write_all(proxy.request(&self.host, self.port).as_bytes())
            .await?;
        let status = status(&mut stream).await?;
        if status != "200" {
            bail!("the proxy {proxy} answered {status}");
        }
        Ok(stream)
    }
}

/// Reads a head, and nothing behind it; gives its status.
async fn status(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == PROXY_ANSWER_MAX_BYTES {
            return Err(io::Error::other("the proxy does not come to an end"));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    Ok(head.split(' ').nth(1).unwrap_or("nothing").trim().to_owned())
}
