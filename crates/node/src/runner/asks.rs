//! What others ask of the control runtime, from any thread.

use std::{
    fmt::Write as _,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use cheops_glue::Verified;
use cheops_net::Body;
use cheops_replica::MetaId;
use cheops_types::{Code, Limit, NameRequest, NameVerdict, Problem, ServiceName, SiteName, headers};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{Hands, read::Access, render::Order};
use crate::{
    caller::OnBehalf,
    names, problems,
    progress::Progress,
    rows,
    secret::Headers,
    waiting::AppAnswer,
    wire::{HELLO, RANGES},
};

/// Asks that wait; further ones are told to come again.
const ASKS_MAX: usize = 256;

/// What is read of another site's answer.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How one site's replica is, as its own application tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaState {
    /// None where the site has no replica.
    pub(crate) local: Option<String>,
    /// The application's answer to the read; none when there was none.
    pub(crate) status: Option<u16>,
    /// SHA-256 of what is compared, in hexadecimal digits.
    pub(crate) digest: Option<String>,
    /// What is compared, with the ids that all sites know.
    pub(crate) state: Option<Value>,
    /// What the application said, where it did not show the replica.
    #[serde(default)]
    pub(crate) said: Option<String>,
    /// How far its create is; none where the replica cannot be read.
    #[serde(default)]
    pub(crate) progress: Option<Progress>,
}

/// The way to the runner. Nothing can be asked before there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asks(Arc<Mutex<Option<mpsc::Sender<Ask>>>>);

/// Something to do on the control runtime, and who wants to know.
#[derive(Debug)]
pub(super) enum Ask {
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
pub(super) struct Unprinted(String);

impl std::fmt::Debug for Unprinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unprinted(..)")
    }
}

/// Headers that may be credentials.
pub(super) struct Hidden(Headers);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(..)")
    }
}

impl Asks {
    pub(super) fn attach(&self) -> mpsc::Receiver<Ask> {
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
        let bytes = self.peer(site, &format!("read/{set}"), Bytes::new()).await?;
        serde_json::from_slice(&bytes).map_err(|_| {
            let detail = format!("the answer of site `{site}` cannot be read: upgrade the older agent");
            Problem::new(Code::PeerFailed, detail).at(site)
        })
    }

    /// Lets another site of the set read its replica again and compare it.
    pub(crate) async fn check_at(&self, site: &SiteName, set: &MetaId) -> Result<(), Problem> {
        let path = format!("check/{set}");
        self.peer(site, &path, Bytes::new()).await.map(drop)
    }

    /// A resource of this site's application, under the caller's credential.
    pub(crate) async fn get(
        &self,
        service: &ServiceName,
        path: &str,
        headers: Headers,
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

pub(super) async fn answer(hands: Rc<Hands>, ask: Ask) {
    // Whoever asked may have gone.
    match ask {
        Ask::Replica { set, answer } => drop(answer.send(hands.replica(&set).await)),
        Ask::Peer {
            site,
            path,
            body,
            answer,
        } => drop(answer.send(hands.ask(&site, path, body).await)),
        Ask::TellNames => names::tell_unasked(&hands.core).await,
        Ask::Caller {
            service,
            credential,
            answer,
        } => drop(answer.send(hands.verify(&service, &credential.0).await)),
        Ask::Get {
            service,
            path,
            headers,
            answer,
        } => {
            let mut order = Order::get(path);
            order.headers.extend(headers.0);
            let called = hands.call(&service, order, "").await;
            drop(answer.send(called.map_err(|failed| failed.problem)));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A text takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Hands {
    async fn replica(&self, meta: &MetaId) -> Result<ReplicaState, Problem> {
        let failed = |error: &cheops_store::Error| problems::store(&self.core.site, error);
        let kept = {
            let read = self.core.store.read().map_err(|error| failed(&error))?;
            rows::kept(&read, meta).map_err(|error| failed(&error))?
        };
        let kept = kept.ok_or_else(|| problems::unknown_set(&self.core.site, meta))?;
        let on_behalf = OnBehalf::last_of(&kept);
        let set = kept.set;
        let mut state = ReplicaState {
            local: set.local().map(ToString::to_string),
            status: None,
            digest: None,
            state: None,
            said: None,
            progress: None,
        };
        let Some(local) = set.local() else {
            return Ok(state);
        };
        let Some(answer) = self.get(set.record(), local, Access::OnBehalf(&on_behalf)).await else {
            return Ok(state);
        };
        state.status = Some(answer.status);
        if answer.status >= 400 {
            let profile = self.core.surroundings.profile();
            state.said = profile.error_text(&set.record().service, &answer.body);
        }
        if answer.status == 200
            && let Some(reading) = self.reading(set.record(), local, &answer.body)
        {
            state.digest = Some(hex(&reading.digest().0) + &reading.odd);
            state.state = serde_json::from_slice(&reading.comparable).ok();
            let profile = self.core.surroundings.profile();
            let kind = profile.kind(&set.record().service, &set.record().kind);
            state.progress = Some(kind.stage(&answer.body).into());
        }
        Ok(state)
    }

    /// Something that another site's agent answers. One that goes on answering for ever must not hold up whoever asks.
    async fn ask(&self, site: &SiteName, path: String, body: Bytes) -> Result<Bytes, Problem> {
        let limit_ms = self.core.surroundings.limits().peer_timeout_ms;
        let asked = self.ask_patiently(site, path, body);
        let answer = timeout(Duration::from_millis(limit_ms), asked).await;
        answer.unwrap_or_else(|_| {
            Limit::PeerTimeout.hit();
            let detail = format!("site `{site}` did not answer within {limit_ms} ms");
            Err(Problem::new(Code::PeerTimeout, detail).at(site))
        })
    }

    async fn ask_patiently(&self, site: &SiteName, path: String, body: Bytes) -> Result<Bytes, Problem> {
        let broken = |detail: String| Problem::new(Code::PeerFailed, detail).at(site);
        if !self.peers.is_up(site) {
            let detail = format!("site `{site}` does not answer heartbeats: try again when it is up");
            return Err(Problem::new(Code::PeerDown, detail).at(site));
        }
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .body(Body::full(body))
            .map_err(|error| broken(error.to_string()))?;
        let answer = self.peers.ask(site, request, false).await;
        let answer = answer.map_err(|failed| failed.problem)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(broken(format!("site `{site}` answered {status}")));
        }
        let body = Limited::new(answer.into_body(), ANSWER_MAX_BYTES).collect().await;
        let body = body.map_err(|_| broken(format!("the answer of site `{site}` broke off")))?;
        Ok(body.to_bytes())
    }
}
