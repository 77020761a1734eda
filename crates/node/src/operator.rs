//! What operators may see and do.

mod adopt;
mod conflicts;
mod cross;
mod fence;
mod find;
mod groups;
mod lists;
mod membership;
mod metrics;
mod operations;
mod page_end;
#[cfg(test)]
mod tests;
mod verify;
mod view;

use std::{sync::Arc, time::Duration};

use cheops_replica::{
    Answer, Draft, Event, Footprint, MetaId, Reason, Recognise, Record, Request, Secret, Set, Token, Verb,
};
use cheops_store::{ReadSession, SealError};
use cheops_types::{Code, KeptBody, Problem, SiteName};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    caller,
    core::Core,
    inbox::Input,
    mint,
    model::{Afterwards, Credential, SetDetail, SetFilter, SetHint, SetList},
    node::Node,
    problems, rows, secret,
    waiting::{Stage, Waiter},
};
use view::View;

/// Replication for operators: sets, operations and conflicts of this site, what they may do about them, and
/// how replicas compare. A cheap handle.
///
/// What is shown is what this site's store has committed; of other sites it is what they have told last.
#[derive(Debug, Clone)]
pub struct Operator {
    core: Arc<Core>,
}

impl Node {
    pub fn operator(&self) -> Operator {
        Operator {
            core: Arc::clone(&self.core),
        }
    }
}

impl Operator {
    /// A page of replica sets, in the order of their meta-ids.
    pub async fn sets(&self, filter: SetFilter) -> Result<SetList, Problem> {
        self.read(move |core, read| lists::sets(core, read, &filter))
            .await
    }

    /// A replica set by its meta-id, its name, or the local id of its replica here.
    pub async fn set(&self, id: &str, hint: &SetHint) -> Result<SetDetail, Problem> {
        let (id, hint) = (id.to_owned(), hint.clone());
        self.read(move |core, read| {
            let set = find::set(core, read, &id, &hint)?;
            let mut detail = View::new(&core.site, &set).detail();
            find::complete(read, &set, &mut detail.set);
            Ok(detail)
        })
        .await
    }

    /// The state of a set, by any of its ids.
    async fn load(&self, id: &str, hint: &SetHint) -> Result<Set, Problem> {
        let (id, hint) = (id.to_owned(), hint.clone());
        self.read(move |core, read| find::set(core, read, &id, &hint))
            .await
    }

    async fn load_meta(&self, meta: &MetaId) -> Result<Option<Set>, Problem> {
        let meta = meta.clone();
        self.read(move |core, read| {
            rows::set(read, &meta).map_err(|error| problems::store(&core.site, &error))
        })
        .await
    }

    async fn detail(&self, meta: &MetaId) -> Result<SetDetail, Problem> {
        let set = self.load_meta(meta).await?;
        let set = set.ok_or_else(|| problems::unknown_set(&self.core.site, meta))?;
        Ok(View::new(&self.core.site, &set).detail())
    }

    async fn afterwards(&self, meta: &MetaId) -> Result<Afterwards, Problem> {
        let set = self.load_meta(meta).await?;
        Ok(Afterwards {
            set: set.map(|set| View::new(&self.core.site, &set).detail()),
        })
    }

    /// Reads the store where it does not hold up anything else.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Core, &ReadSession) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let core = Arc::clone(&self.core);
        let reading = tokio::task::spawn_blocking(move || {
            let session = core
                .store
                .read()
                .map_err(|error| problems::store(&core.site, &error))?;
            read(&core, &session)
        });
        reading.await.unwrap_or_else(|_| Err(self.stopping()))
    }

    /// Lets something happen to a set; returns when it is durable.
    async fn tell(&self, meta: &MetaId, event: Event) -> Result<(), Problem> {
        self.core.engine.tell(meta, event).await
    }

    /// Changes the set's record by an operation of its own.
    async fn change(&self, meta: &MetaId, verb: Verb, credential: Option<Secret>) -> Result<(), Problem> {
        let caller = match verb {
            Verb::Join { .. } => self.sponsor(meta, credential.as_ref()).await?,
            _ => None,
        };
        let (token, waiter) = self.register();
        let draft = Draft {
            token,
            verb,
            touches: Footprint::parts([]),
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: Request {
                caller,
                ..no_request()
            },
            conditions: None,
            credential,
            promised: false,
            remakes: false,
        };
        let input = Input::Request {
            set: meta.clone(),
            draft: Box::new(draft),
        };
        self.core
            .engine
            .post(input)
            .map_err(|busy| busy.problem(&self.core.site))?;
        let stage = self.answered(meta, waiter).await?;
        match stage.answer {
            Some(Answer::Noted { .. }) => Ok(()),
            answer => Err(self.refusal(meta, answer.as_ref())),
        }
    }

    async fn sponsor(
        &self,
        meta: &MetaId,
        credential: Option<&Secret>,
    ) -> Result<Option<cheops_types::Caller>, Problem> {
        let wanted = meta.clone();
        let kept = self.read(move |core, read| {
            rows::kept(read, &wanted).map_err(|error| problems::store(&core.site, &error))
        });
        Ok(match kept.await? {
            Some(kept) => caller::sponsor(&self.core, &kept, credential).await,
            None => None,
        })
    }

    /// A place among those that wait for the engine's answer.
    fn register(&self) -> (Token, Waiter) {
        let token = mint::token(&*self.core.surroundings);
        (token, self.core.waiting.register_recorded(token))
    }

    async fn answered(&self, meta: &MetaId, mut waiter: Waiter) -> Result<Stage, Problem> {
        let patience = Duration::from_millis(self.core.surroundings.limits().upstream_timeout_ms);
        let is_over = |stage: &Stage| stage.answer.is_some() || stage.failed.is_some();
        let stage = tokio::time::timeout(patience, waiter.until(is_over))
            .await
            .map_err(|_| {
                let detail = format!(
                    "the set `{meta}` is busy at `{}`: what was asked for is recorded and happens when the \
                     execution that is under way has ended",
                    self.core.site
                );
                Problem::new(Code::ReplicaUnavailable, detail).at(&self.core.site)
            })?
            .ok_or_else(|| self.stopping())?;
        match stage.failed {
            Some(problem) => Err(problem),
            None => Ok(stage),
        }
    }

    /// Why the engine did not do what it was asked.
    fn refusal(&self, meta: &MetaId, answer: Option<&Answer>) -> Problem {
        let here = &self.core.site;
        let (code, detail) = match answer {
            Some(Answer::Gone) => return problems::deleted(here, meta.as_str()),
            Some(Answer::NotHere(Reason::NotMember)) => (
                Code::SetRefused,
                format!("`{here}` is no longer part of the set `{meta}`: ask one of its sites"),
            ),
            Some(Answer::NotHere(Reason::InDoubt)) => (
                Code::InDoubt,
                format!("an execution for the set `{meta}` is in doubt at `{here}`: settle it first"),
            ),
            Some(Answer::NotHere(Reason::Fenced)) => (
                Code::SetFenced,
                format!(
                    "the set `{meta}` is fenced off at `{here}`: `cheops replicas show` says why, `cheops replicas unfence` lets it go on"
                ),
            ),
            Some(Answer::NotHere(Reason::NoReplica)) => (
                Code::ReplicaUnavailable,
                format!("`{here}` has no replica of the set `{meta}` yet: ask a site that has one"),
            ),
            Some(Answer::NotHere(Reason::Unreachable)) => (
                Code::UpstreamUnreachable,
                format!("the service at `{here}` could not be reached: nothing happened, try again later"),
            ),
            Some(Answer::Refused { status }) => (
                Code::ReplicaRefused,
                format!("the service at `{here}` refused it with {status}: nothing happened"),
            ),
            Some(Answer::Unknown { .. }) => (
                Code::UnknownOutcome,
                format!(
                    "the service at `{here}` did not answer: it may have executed, and is found out about"
                ),
            ),
            _ => (
                Code::SetRefused,
                format!("the set `{meta}` has changed meanwhile: look at it again"),
            ),
        };
        Problem::new(code, detail).at(here)
    }

    /// Seals a credential for operations of one kind; none when there is none.
    fn seal(&self, service: &str, kind: &str, credential: &Credential) -> Result<Option<Secret>, Problem> {
        if credential.is_empty() {
            return Ok(None);
        }
        let headers = self.headers(service, kind, credential)?;
        let sealed = secret::seal_supplied(&self.core.key, &*self.core.surroundings, &headers);
        sealed.map(Some).map_err(|error: SealError| {
            let detail = format!("`{}` cannot keep the credential: {error}", self.core.site);
            Problem::new(Code::StoreFull, detail).at(&self.core.site)
        })
    }

    /// The headers of a credential, if the glue knows them as such. Their values are never told.
    fn headers(&self, service: &str, kind: &str, credential: &Credential) -> Result<HeaderMap, Problem> {
        let profile = self.core.surroundings.profile();
        let rules = profile.kind(service, kind);
        let known = rules.credential_headers();
        let headers = credential.0.iter().map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            if !known.contains(&name) {
                let detail = format!(
                    "`{name}` is no credential of `{service}`; there is {}",
                    known.join(", ")
                );
                return Err(Problem::new(Code::BadRequest, detail));
            }
            let header = HeaderName::try_from(&name)
                .ok()
                .zip(HeaderValue::from_str(value).ok());
            header.ok_or_else(|| {
                let detail = format!("the value of `{name}` has characters that no header can have");
                Problem::new(Code::BadRequest, detail)
            })
        });
        headers.collect()
    }

    /// Leaves out credentials that the glue lets operations record.
    fn without_credentials(&self, record: &Record, headers: &mut Vec<(String, String)>) {
        let profile = self.core.surroundings.profile();
        let rules = profile.kind(&record.service, &record.kind);
        let is_credential = |name: &str| {
            let mut known = rules.credential_headers().iter();
            known.any(|known| known.eq_ignore_ascii_case(name))
        };
        headers.retain(|(name, _)| !is_credential(name));
    }

    /// Another site that this one knows.
    fn known_site(&self, site: &SiteName) -> Result<(), Problem> {
        let known = self.core.surroundings.sites();
        if known.contains(site) {
            return Ok(());
        }
        let names: Vec<_> = known.iter().map(SiteName::as_str).collect();
        let detail = format!("there is no site `{site}`; there is {}", names.join(", "));
        Err(Problem::new(Code::UnknownSite, detail).at(&self.core.site))
    }

    fn stopping(&self) -> Problem {
        Problem::new(Code::ShuttingDown, "the agent is stopping").at(&self.core.site)
    }
}

/// Operations of the set itself ask nothing of the application.
fn no_request() -> Request {
    Request {
        method: String::new(),
        path: String::new(),
        headers: Vec::new(),
        body: KeptBody::EMPTY,
        scope: String::new(),
        caller: None,
        shares: Vec::new(),
    }
}
