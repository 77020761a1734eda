//! One core's proxy: the entry for every request, and the pools behind it.

use std::{cell::RefCell, convert::Infallible, rc::Rc, sync::Arc};

use cheops_net::{Body, Clock, Connection, Handler, Received};
use cheops_types::headers;
use http::{Method, Request, Response, Version};
use http_body::Body as _;

use crate::{Role, Shared, Tag, answer, client_port, core::Core, peer_port};

/// Handles the requests of one core.
pub struct Proxy {
    core: RefCell<Rc<Core>>,
}

impl Proxy {
    /// Must run on the core's own runtime.
    pub fn new(shared: Arc<Shared>, clock: Rc<Clock>) -> Rc<Self> {
        let counters = shared.add_counters();
        let core = Core::new(shared, clock, counters);
        let proxy = Rc::new(Self {
            core: RefCell::new(Rc::new(core)),
        });
        tokio::task::spawn_local(keep_peers(Rc::downgrade(&proxy)));
        proxy
    }

    pub(crate) fn core(&self) -> Rc<Core> {
        let core = self.core.borrow();
        if core.is_current() {
            return core.clone();
        }
        let next = Rc::new(core.renew());
        drop(core);
        self.core.replace(next.clone());
        next
    }
}

impl Handler for Proxy {
    type Tag = Arc<Tag>;

    fn handle(
        self: Rc<Self>,
        connection: Rc<Connection<Arc<Tag>>>,
        request: Request<Received>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + 'static {
        let core = self.core();
        let is_head = request.method() == Method::HEAD;
        let is_http2 = request.version() == Version::HTTP_2;
        let is_endless = is_endless(&core, &connection.tag, &request);
        async move {
            // The state of a plain request stays small: everything else is boxed, and what it goes through are
            // blocks, because an `async fn` has room for its arguments twice.
            let mut response = match (connection.tag.role, &connection.tag.service) {
                (Role::Peer, _) => Box::pin(peer_port::handle(&core, &connection, request)).await,
                (_, Some(service)) => client_port::handle(&core, &connection, service, request).await,
                (_, None) => unreachable!("a client port has a service"),
            };
            if is_head {
                answer::drop_body(&mut response);
            } else if is_endless && response.body().size_hint().exact().is_none() {
                response = response.map(|body| body.until(connection.ending()));
            }
            if is_http2 {
                response = response.map(|body| connection.paced(body));
            }
            Ok(response)
        }
    }
}

/// Whether the glue says that the answer does not end by itself.
fn is_endless(core: &Core, tag: &Tag, request: &Request<Received>) -> bool {
    let named = || request.headers().get(headers::PEER_SERVICE)?.to_str().ok();
    let service = tag.service.as_deref().or_else(named);
    let (profile, uri) = (&core.world.profile, request.uri());
    service.is_some_and(|service| profile.is_stream(service, uri.path(), uri.query()))
}

/// Keeps connections to peers open, or closes them when they were idle for long.
async fn keep_peers(proxy: std::rc::Weak<Proxy>) {
    loop {
        let Some(interval_ms) = proxy.upgrade().map(|proxy| {
            let core = proxy.core();
            for link in core.peers() {
                if core.world.keep_peers_warm {
                    let link = link.clone();
                    tokio::task::spawn_local(async move { link.warm().await.map_err(drop) });
                } else {
                    link.tidy();
                }
            }
            core.limits().heartbeat_interval_ms
        }) else {
            return;
        };
        tokio::time::sleep(std::time::Duration::from_millis(interval_ms.max(100))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the state that `handle` makes for each request.
    fn state_bytes<F: Future>(
        _: impl FnOnce(Rc<Proxy>, Rc<Connection<Arc<Tag>>>, Request<Received>) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_state_of_a_request_stays_small() {
        // It is moved and touched for every request: 20 KiB of it cost 8 % of a plain request's time.
        let bytes = state_bytes(Proxy::handle);
        assert!(bytes <= 4096, "{bytes} bytes");
    }
}
