//! How a request to the application authenticates, where nobody waits for it.

use bytes::Bytes;
use cheops_glue::{StandIn, Verified};
use cheops_replica::Record;
use cheops_types::{KeptBody, Problem, ServiceName};
use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use super::{Executor, render::AppRequest};
use crate::{
    caller::{OnBehalf, Rights, rights},
    secret::{self, Headers},
    waiting::CallerHeaders,
};

/// A token is got anew so long before it ends.
const BEFORE_END_MS: u64 = 60_000;
/// How long one is used that does not say when it ends.
const UNTOLD_MS: u64 = 300_000;
/// After a failure the next attempt waits.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(5);

/// The site's own token, which goes beside a caller's.
#[derive(Default)]
pub(super) struct OwnToken(Mutex<Own>);

#[derive(Default)]
struct Own {
    token: Option<Token>,
    failed: Option<Instant>,
}

struct Token {
    value: Bytes,
    until_ms: u64,
    /// What it was got with: another credential gives another token.
    credential: std::sync::Arc<[u8]>,
}

/// How a request was authenticated.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// What a 401 means then: why it was not in its caller's name, or that the site's own credential is no good.
    pub(super) why: Option<String>,
    has_token: bool,
}

impl Executor {
    /// Adds to a request's headers what authenticates it. Fails where nothing can: with what has to be done.
    pub(super) async fn speak(
        &self,
        headers: &mut Headers,
        set: &Record,
        on_behalf: &OnBehalf,
    ) -> Result<Spoken, String> {
        let profile = self.core.surroundings.profile();
        let mut spoken = Spoken::default();
        let mut added = match rights(&self.core, &profile, set, on_behalf) {
            Rights::InName(headers) => {
                let service = &set.service;
                spoken.why = Some(format!(
                    "the service does not take this site's own credential: see `credential` in [services.{service}]"
                ));
                headers
            }
            Rights::Nobody(why) => return Err(why),
            Rights::Own { headers, why } => {
                spoken.why = why;
                headers
            }
        };
        if !added.is_empty()
            && let Some((service, stand_in)) = profile.stand_in()
            && let Some(token) = self.own_token(service, stand_in).await
        {
            added.push((stand_in.beside.clone(), token));
            spoken.has_token = true;
        }
        headers.retain(|(found, _)| !added.iter().any(|(name, _)| found.eq_ignore_ascii_case(name)));
        headers.append(&mut added);
        Ok(spoken)
    }

    /// What authenticates a caller that waits, of all that it sent.
    pub(super) fn credential_of(&self, set: &Record, caller: &CallerHeaders) -> Headers {
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let rules = profile.caller(&set.service);
        let authenticates = |name: &str| {
            kind.credential_headers().iter().any(|listed| listed == name)
                || rules.is_some_and(|rules| rules.tells_caller(name))
        };
        secret::listed(&caller.headers, authenticates)
    }

    /// The application has answered that a request is nobody's.
    pub(super) async fn unheard(&self, spoken: &Spoken) {
        if spoken.has_token {
            // It may have been taken back.
            self.own_token.0.lock().await.token = None;
        }
    }

    /// Who a credential belongs to.
    pub(crate) async fn verify(&self, service: &ServiceName, credential: &str) -> Result<Verified, Problem> {
        let profile = self.core.surroundings.profile();
        let rules = profile.caller(service);
        let Some((rules, verify)) = rules.and_then(|rules| Some((rules, rules.verify.as_ref()?))) else {
            return Ok(Verified::Unknown);
        };
        let question = verify.question(credential);
        let access = self.core.surroundings.access(service);
        let own = access.credential.as_deref().map(String::from_utf8_lossy);
        let (asked_with, body) = match (&question, &own) {
            (Some(question), Some(own)) => (own.trim(), Bytes::copy_from_slice(question.as_bytes())),
            (Some(_), None) => return Ok(Verified::Unknown),
            (None, _) => (credential, Bytes::new()),
        };
        let (header, value) = rules.own_credential(asked_with);
        let mut order = json_order(&verify.method, &verify.path, body);
        order.headers.push((header, value.into()));
        let answer = self
            .call(service, order, "")
            .await
            .map_err(|failed| failed.problem)?;
        Ok(verify.read(answer.status, &answer.body))
    }

    /// The site's own token, where it has a credential to get one with.
    async fn own_token(&self, service: &ServiceName, stand_in: &StandIn) -> Option<Bytes> {
        let credential = self.core.surroundings.access(service).credential?;
        let mut own = self.own_token.0.lock().await;
        let now_ms = self.core.surroundings.now_ms();
        if let Some(token) = &own.token
            && token.until_ms > now_ms
            && token.credential == credential
        {
            return Some(token.value.clone());
        }
        own.token = None;
        if own.failed.is_some_and(|since| since.elapsed() < PAUSE) {
            return None;
        }
        let body = Bytes::copy_from_slice(&credential);
        let answer = self
            .call(service, json_order(&stand_in.method, &stand_in.path, body), "")
            .await;
        let (value, until_ms) = match &answer {
            Ok(answer) if (200..300).contains(&answer.status) => {
                let value = answer.headers.get(&stand_in.token);
                let value = value.map(|value| Bytes::copy_from_slice(value.as_bytes()));
                let ends_ms = stand_in.expires_ms(&answer.body);
                (
                    value,
                    ends_ms.map_or(now_ms + UNTOLD_MS, |ends_ms| {
                        ends_ms.saturating_sub(BEFORE_END_MS)
                    }),
                )
            }
            _ => (None, 0),
        };
        let Some(value) = value else {
            let status = answer.as_ref().map_or(0, |answer| answer.status);
            warn!(%service, status, "the site gets no token of its own: check its `credential` for this service");
            own.failed = Some(Instant::now());
            return None;
        };
        *own = Own {
            token: Some(Token {
                value: value.clone(),
                until_ms,
                credential,
            }),
            failed: None,
        };
        Some(value)
    }
}

fn json_order(method: &str, path: &str, body: Bytes) -> AppRequest {
    let mut order = AppRequest::get(path.to_owned());
    method.clone_into(&mut order.method);
    order
        .headers
        .push(("content-type".to_owned(), Bytes::from_static(b"application/json")));
    order.body = KeptBody::Inline(body);
    order
}
