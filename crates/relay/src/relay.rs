//! The handle of a link.

use std::{
    io,
    net::{self, SocketAddr},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use tokio::{net::TcpListener, runtime, sync::watch, time};

use crate::{
    connection::{self, Counters},
    link::{Link, Settings, State},
};

/// How long to wait after a failed accept, which mostly means that there are too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A link from an address of its own to a target. It starts up and without delay.
///
/// Handles are cheap to clone and work from any thread; the link has a thread of its own and ends,
/// with all its connections, when the last handle is dropped. A change holds for everything that
/// is sent after the method returned.
#[derive(Debug, Clone)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    addr: SocketAddr,
    target: SocketAddr,
    settings: watch::Sender<Settings>,
    counters: Arc<Counters>,
}

/// Bytes that arrived at the ends of a link since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    pub to_target_bytes: u64,
    pub from_target_bytes: u64,
}

impl Relay {
    /// Listens at `listen` (port 0 for any) and carries connections to `target`, which may start
    /// to listen later.
    pub fn bind(listen: SocketAddr, target: SocketAddr) -> io::Result<Self> {
        let listener = net::TcpListener::bind(listen)?;
        Self::on(listener, target)
    }

    /// Like [`Relay::bind`], at an address that is already bound.
    pub fn on(listener: net::TcpListener, target: SocketAddr) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (settings, seen) = watch::channel(Settings::default());
        let counters = Arc::new(Counters::default());
        let counted = counters.clone();
        thread::Builder::new()
            .name(format!("relay-{}", addr.port()))
            .spawn(move || runtime.block_on(accept(listener, target, Link::new(seen), counted)))?;
        Ok(Self {
            inner: Arc::new(Inner {
                addr,
                target,
                settings,
                counters,
            }),
        })
    }

    /// Where the link listens.
    pub fn addr(&self) -> SocketAddr {
        self.inner.addr
    }

    /// Where the link leads.
    pub fn target(&self) -> SocketAddr {
        self.inner.target
    }

    /// Sets the time from one end to the other, the same in both directions. A new connection
    /// costs a round trip more, as its handshake would.
    pub fn set_delay(&self, one_way: Duration) {
        self.change(|settings| settings.delay = one_way);
    }

    /// Cuts the link: connections stay open, new ones are accepted, nothing arrives.
    pub fn cut(&self) {
        self.change(|settings| settings.state = State::Cut);
    }

    /// Cuts one way only: what is sent to the target waits, what the target sends arrives. New connections wait
    /// for the end of the cut, as their handshakes need both ways.
    pub fn cut_to_target(&self) {
        self.change(|settings| settings.state = State::CutToTarget);
    }

    /// The other way round: what is sent to the target arrives, what it sends waits.
    pub fn cut_from_target(&self) {
        self.change(|settings| settings.state = State::CutFromTarget);
    }

    /// Resets all connections, and new ones at once.
    pub fn refuse(&self) {
        self.change(|settings| {
            settings.state = State::Refused;
            settings.refusals += 1;
        });
    }

    /// Ends a cut or a refusal. Connections that waited go on, and what was sent arrives.
    pub fn heal(&self) {
        self.change(|settings| settings.state = State::Up);
    }

    pub fn traffic(&self) -> Traffic {
        let counters = &self.inner.counters;
        Traffic {
            to_target_bytes: counters.to_target.load(Ordering::Relaxed),
            from_target_bytes: counters.from_target.load(Ordering::Relaxed),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        self.inner.settings.send_modify(change);
    }
}

/// Accepts until the last handle is gone; the runtime that ends with it ends the connections.
async fn accept(listener: TcpListener, target: SocketAddr, link: Link, counters: Arc<Counters>) {
    let mut handles = link.clone();
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((near, _)) => {
                    let link = link.clone();
                    let counters = counters.clone();
                    tokio::spawn(async move { connection::carry(near, target, link, &counters).await });
                }
                Err(error) => {
                    tracing::warn!(%error, "the link could not accept a connection");
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = handles.closed() => {}
    }
}
