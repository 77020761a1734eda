//! What others ask of the control runtime, from any thread.

mod replica;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use cheops_glue::Verified;
use cheops_replica::{MetaId, Vector};
use cheops_types::{Code, NameRequest, NameVerdict, Problem, ServiceName, SiteName, headers};
use tokio::sync::{mpsc, oneshot};

use http::HeaderMap;

use crate::{pack::unpack, waiting::AppAnswer};
pub(crate) use replica::{Progress, ReplicaState};

// Where agents ask each other, below [`headers::PEER_REPLICATION_PATH`].
pub(crate) const MESSAGES: &str = "messages";
pub(crate) const READ: &str = "read/";
pub(crate) const CHECK: &str = "check/";
pub(crate) const RANGES: &str = "ranges";
/// What the members of a group tell each other.
pub(crate) const GROUPS: &str = "groups";
/// How far a site is with a set of a group.
pub(crate) const HELD: &str = "held/";
/// Whether a site remembers this one's store to be older than it is.
pub(crate) const HELLO: &str = "hello";

/// Asks that wait; further ones are told to come again.
const ASKS_MAX: usize = 256;

/// The way to the runner. Nothing can be asked before there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asks(Arc<Mutex<Option<mpsc::Sender<Ask>>>>);

/// Something to do on the control runtime, and who wants to know.
#[derive(Debug)]
pub(crate) enum Ask {
    Replica {
        set: MetaId,
        answer: oneshot::Sender<Result<ReplicaState, Problem>>,
    },
    Peer {
        site: SiteName,
        path: String,
        body: Bytes,
        answer: oneshot::Sender<Result<Bytes, Problem>>,
    },
    Get {
        service: ServiceName,
        path: String,
        headers: Hidden,
        answer: oneshot::Sender<Result<AppAnswer, Problem>>,
    },
    Caller {
        service: ServiceName,
        credential: Unprinted,
        answer: oneshot::Sender<Result<Verified, Problem>>,
    },
    /// Let prime sites know which names were taken without asking them.
    TellNames,
}

/// A credential by itself.
pub(crate) struct Unprinted(pub(crate) String);

impl std::fmt::Debug for Unprinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unprinted(..)")
    }
}

/// Headers that may be credentials.
pub(crate) struct Hidden(pub(crate) HeaderMap);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(..)")
    }
}

impl Asks {
    pub(crate) fn attach(&self) -> mpsc::Receiver<Ask> {
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        asks
    }

    /// This site's replica.
    pub(crate) async fn replica(&self, set: &MetaId) -> Result<ReplicaState, Problem> {
        let set = set.clone();
        self.ask(|answer| Ask::Replica { set, answer }).await
    }

    /// The replica of another site of the set.
    pub(crate) async fn replica_at(&self, site: &SiteName, set: &MetaId) -> Result<ReplicaState, Problem> {
        let bytes = self.peer(site, &format!("{READ}{set}"), Bytes::new()).await?;
        serde_json::from_slice(&bytes).map_err(|_| {
            let detail = format!("the answer of site `{site}` cannot be read: upgrade the older agent");
            Problem::new(Code::PeerFailed, detail).at(site)
        })
    }

    /// What another site of a strong set holds of it.
    pub(crate) async fn held_at(&self, site: &SiteName, set: &MetaId) -> Result<Vector, Problem> {
        let bytes = self.peer(site, &format!("{HELD}{set}"), Bytes::new()).await?;
        unpack(&bytes).map_err(|_| {
            let detail = format!("the answer of site `{site}` cannot be read: upgrade the older agent");
            Problem::new(Code::PeerFailed, detail).at(site)
        })
    }

    /// Lets another site of the set read its replica again and compare it.
    pub(crate) async fn check_at(&self, site: &SiteName, set: &MetaId) -> Result<(), Problem> {
        let path = format!("{CHECK}{set}");
        self.peer(site, &path, Bytes::new()).await.map(drop)
    }

    /// A resource of this site's application, under the caller's credential.
    pub(crate) async fn get(
        &self,
        service: &ServiceName,
        path: &str,
        headers: HeaderMap,
    ) -> Result<AppAnswer, Problem> {
        let (service, path, headers) = (service.clone(), path.to_owned(), Hidden(headers));
        let ask = |answer| Ask::Get {
            service,
            path,
            headers,
            answer,
        };
        self.ask(ask).await
    }

    /// Who a credential belongs to, as the application says.
    pub(crate) async fn caller(&self, service: &ServiceName, credential: &str) -> Result<Verified, Problem> {
        let (service, credential) = (service.clone(), Unprinted(credential.to_owned()));
        let ask = |answer| Ask::Caller {
            service,
            credential,
            answer,
        };
        self.ask(ask).await
    }

    /// What the prime site of a container says about a name.
    pub(crate) async fn name(&self, site: &SiteName, request: &NameRequest) -> Result<NameVerdict, Problem> {
        let body = serde_json::to_vec(request).unwrap_or_default();
        let answer = self.peer(site, headers::NAMES, body.into()).await?;
        serde_json::from_slice(&answer).map_err(|_| {
            let detail = format!("the answer of site `{site}` cannot be read: upgrade the older agent");
            Problem::new(Code::PeerFailed, detail).at(site)
        })
    }

    /// What another site remembers of this one's store.
    pub(crate) async fn hello(&self, site: &SiteName, hello: Bytes) -> Result<Bytes, Problem> {
        self.peer(site, HELLO, hello).await
    }

    /// What another site holds where this one holds something else.
    pub(crate) async fn ranges(&self, site: &SiteName, mine: Bytes) -> Result<Bytes, Problem> {
        self.peer(site, RANGES, mine).await
    }

    /// Soon, and not at all if there is too much to do: it is done again and again.
    pub(crate) fn tell_names(&self) {
        let asks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asks) = &*asks {
            let _ = asks.try_send(Ask::TellNames);
        }
    }

    async fn peer(&self, site: &SiteName, path: &str, body: Bytes) -> Result<Bytes, Problem> {
        let path = format!("{}{path}", headers::PEER_REPLICATION_PATH);
        let site = site.clone();
        let ask = |answer| Ask::Peer {
            site,
            path,
            body,
            answer,
        };
        self.ask(ask).await
    }

    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> Ask,
    ) -> Result<T, Problem> {
        let busy = || {
            Problem::new(
                Code::StoreBusy,
                "replication has too much to do here: try again later",
            )
        };
        let (sender, answer) = oneshot::channel();
        {
            let asks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let asks = asks.as_ref().ok_or_else(busy)?;
            asks.try_send(ask(sender)).map_err(|_| busy())?;
        }
        answer.await.unwrap_or_else(|_| Err(busy()))
    }
}
