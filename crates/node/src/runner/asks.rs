//! Answers to what others ask of the control runtime.

use std::{fmt::Write as _, rc::Rc, time::Duration};

use bytes::Bytes;
use cheops_net::Body;
use cheops_replica::MetaId;
use cheops_types::{Code, Limit, Problem, SiteName};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use tokio::time::timeout;

use super::Reach;
use crate::{
    asks::{Ask, ReplicaState},
    caller::OnBehalf,
    executor::{Access, AppRequest},
    names, problems, rows, secret,
};

/// What is read of another site's answer.
const ANSWER_MAX_BYTES: usize = 64 * 1024 * 1024;

pub(super) async fn answer(reach: Rc<Reach>, ask: Ask) {
    // Whoever asked may have gone.
    match ask {
        Ask::Replica { set, answer } => drop(answer.send(reach.replica(&set).await)),
        Ask::Peer {
            site,
            path,
            body,
            answer,
        } => drop(answer.send(reach.ask(&site, path, body).await)),
        Ask::TellNames => names::tell_unasked(&reach.core).await,
        Ask::Caller {
            service,
            credential,
            answer,
        } => drop(answer.send(reach.executor.verify(&service, &credential.0).await)),
        Ask::Get {
            service,
            path,
            headers,
            answer,
        } => {
            let mut order = AppRequest::get(path);
            order.headers.extend(secret::listed(&headers.0, |_| true));
            let called = reach.executor.call(&service, order, "").await;
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

impl Reach {
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
        let Some(answer) = self
            .executor
            .get(set.record(), local, Access::OnBehalf(&on_behalf))
            .await
        else {
            return Ok(state);
        };
        state.status = Some(answer.status);
        if answer.status >= 400 {
            let profile = self.core.surroundings.profile();
            state.said = profile.error_text(&set.record().service, &answer.body);
        }
        if answer.status == 200
            && let Some(reading) = self.executor.reading(set.record(), local, &answer.body)
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
