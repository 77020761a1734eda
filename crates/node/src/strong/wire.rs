//! The members of groups, over the link between agents.

use std::{rc::Rc, sync::Arc};

use bytes::Bytes;
use cheops_net::Body;
use cheops_ports::Peers;
use cheops_strong::{Unreached, Wire};
use cheops_types::{SiteName, headers};
use futures_util::future::LocalBoxFuture;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};

use crate::{asks::GROUPS, core::Core};

/// What is read of an answer.
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct PeerWire {
    core: Arc<Core>,
    peers: Rc<dyn Peers>,
}

impl PeerWire {
    pub(super) fn new(core: &Arc<Core>, peers: &Rc<dyn Peers>) -> Self {
        Self {
            core: Arc::clone(core),
            peers: Rc::clone(peers),
        }
    }

    async fn ask(&self, to: &SiteName, body: Bytes) -> Result<Bytes, String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{GROUPS}", headers::PEER_REPLICATION_PATH))
            .body(Body::full(body))
            .map_err(|error| error.to_string())?;
        let answer = self.peers.ask(to, request, false).await;
        let answer = answer.map_err(|failed| failed.problem.detail)?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(format!("it answered {status}"));
        }
        Ok(body)
    }
}

impl Wire for PeerWire {
    fn send<'a>(&'a self, to: &'a SiteName, body: Bytes) -> LocalBoxFuture<'a, Result<Bytes, Unreached>> {
        Box::pin(async move {
            let site = to.clone();
            self.ask(to, body)
                .await
                .map_err(|reason| Unreached { site, reason })
        })
    }

    fn is_up(&self, site: &SiteName) -> bool {
        self.peers.is_up(site)
    }

    fn incarnation(&self, site: &SiteName) -> Option<u64> {
        self.core.lives.of(site)
    }
}
