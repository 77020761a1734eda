//! A name in a container, asked for at its prime site.

use std::{pin::pin, rc::Rc};

use bytes::Bytes;
use cheops_net::{Body, Bulk, Expired, SendError};
use cheops_types::{Code, Health, NameAsk, NameRequest, NameVerdict, Problem, SiteName, VerbClass, headers};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};

use crate::{
    answer::{self, unlinked},
    core::Core,
};

/// What is read of a verdict.
const VERDICT_MAX_BYTES: usize = 64 * 1024;

/// Asks the prime site about a name. An error says that it cannot be asked, or not now.
pub(super) async fn ask(
    core: &Core,
    prime: &SiteName,
    request: &NameRequest,
) -> Result<NameVerdict, Problem> {
    if *prime == core.world.site {
        return core.replication()?.name(request.clone()).await;
    }
    let body = serde_json::to_vec(request).unwrap_or_default();
    let answer = ask_peer(core, prime, body.into()).await?;
    serde_json::from_slice(&answer).map_err(|_| {
        let detail =
            format!("the answer of site `{prime}` about a name cannot be read: upgrade the older agent");
        Problem::new(Code::PeerFailed, detail).at(prime)
    })
}

async fn ask_peer(core: &Core, prime: &SiteName, body: Bytes) -> Result<Bytes, Problem> {
    let failed = |detail: String| Problem::new(Code::PeerFailed, detail).at(prime);
    if core.shared.distances.load().health(prime) == Health::Down {
        let detail = format!("site `{prime}` does not answer heartbeats");
        return Err(Problem::new(Code::PeerDown, detail).at(prime));
    }
    let link = core.peer(prime).ok_or_else(|| unlinked(prime))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}{}", headers::PEER_REPLICATION_PATH, headers::NAMES))
        .body(Body::full(body))
        .map_err(|error| failed(error.to_string()))?;
    let timeout_ms = core.limits().peer_timeout_ms;
    let asked = async {
        let answer = link.send(request, Bulk::No).await;
        let answer = answer.map_err(|error| answer::peer_problem(&error, prime, VerbClass::Create))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(failed(format!(
                "site `{prime}` answered {status} to a question about a name"
            )));
        }
        let body = Limited::new(answer.into_body(), VERDICT_MAX_BYTES)
            .collect()
            .await;
        let body = body.map_err(|_| failed(format!("the answer of site `{prime}` broke off")))?;
        Ok(body.to_bytes())
    };
    let answered = core.clock.timeout(timeout_ms, pin!(asked)).await;
    answered.unwrap_or_else(|Expired| {
        let error = SendError::timeout(timeout_ms);
        Err(answer::peer_problem(&error, prime, VerbClass::Create))
    })
}

/// Lets the prime site know, without anyone waiting for it.
pub(super) fn tell(core: &Rc<Core>, prime: &SiteName, container: &str, name: &str, ask: NameAsk) {
    let (core, prime) = (Rc::clone(core), prime.clone());
    let request = NameRequest {
        container: container.to_owned(),
        name: name.to_owned(),
        ask,
    };
    tokio::task::spawn_local(async move {
        if let Err(problem) = self::ask(&core, &prime, &request).await {
            // It is found out when somebody asks for the name.
            tracing::debug!(%prime, name = request.name, problem = %problem.detail, "a name could not be told");
        }
    });
}
