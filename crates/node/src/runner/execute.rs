//! Executions at this site's application.

use std::io::Read as _;

use bytes::Bytes;
use cheops_replica::{
    self as replica, Attempt, Conditions, Execution, Form, LocalId, Recognise, Record, Secret,
};
use cheops_store::{Payload, PayloadRef};
use cheops_types::{Outcome, Problem, SiteName};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::{
    Hands, call,
    render::{Content, Mark, Order, Render},
};
use crate::{
    ids::ToLocal,
    rows,
    secret::{self, Headers},
    waiting::{AppAnswer, Caller},
};

/// Why nothing was sent.
enum Unsent {
    /// Something that it needs is not here (yet), or could not be read: it can be tried again.
    Later,
    /// It can never be sent like this; the answer of the application would be the same.
    Never(Problem),
    /// The application answered something else first.
    Answered(u16),
}

/// The body of a request on its way, kept in the spool until it has ended.
struct Kept {
    content: Content,
    _payload: Option<Payload>,
}

impl Hands {
    pub(super) async fn execute(
        &self,
        set: &Record,
        others: &[SiteName],
        stand_in: Option<&Secret>,
        execution: Execution,
    ) -> Attempt {
        let caller = self.core.waiting.take_caller(execution.token);
        let attempt = self.attempt(set, others, stand_in, &execution, caller.as_deref());
        match attempt.await {
            Ok(attempt) => attempt,
            Err(Unsent::Later) => Attempt::NotSent,
            Err(Unsent::Answered(status)) => Attempt::Answered { status, local: None },
            Err(Unsent::Never(problem)) => {
                warn!(set = %set.meta, problem = %problem.detail, "a request cannot be rendered");
                let status = problem.status();
                if caller.is_some() {
                    let content_type = Bytes::from_static(Problem::CONTENT_TYPE.as_bytes());
                    let answer = AppAnswer {
                        status,
                        headers: vec![("content-type".to_owned(), content_type)],
                        body: problem.to_bytes().into(),
                    };
                    self.core.waiting.put_answer(execution.token, answer);
                }
                Attempt::Answered { status, local: None }
            }
        }
    }

    async fn attempt(
        &self,
        set: &Record,
        others: &[SiteName],
        stand_in: Option<&Secret>,
        execution: &Execution,
        caller: Option<&Caller>,
    ) -> Result<Attempt, Unsent> {
        let mark = Mark {
            recognise: execution.recognise,
            token: execution.token,
        };
        let request = request_of(&execution.form);
        let kept = match request {
            Some(request) => {
                let conditions = execution.conditions.as_ref();
                Some(self.body(set, others, request, conditions, mark).await?)
            }
            None => None,
        };
        let place = match caller {
            Some(_) => None,
            None => self.places.acquire().await.ok(),
        };
        if caller.is_none() && self.core.calls.is_stopping() {
            return Err(Unsent::Later);
        }
        let credential = execution.credential.as_ref().or(stand_in);
        let content = kept.as_ref().map(|kept| kept.content.clone());
        let mut order = self
            .render(set, &execution.form, content, caller, mark, credential)
            .await?;
        if caller.is_none() {
            add_conditions(&mut order.headers, execution.conditions.as_ref());
            self.add_credential(&mut order.headers, credential);
        }
        let scope = request.map_or("", |request| request.scope.as_str());
        let called = self.call(&set.service, order, scope).await;
        drop((kept, place));
        let answer = match called {
            Ok(answer) => answer,
            Err(failed) => {
                debug!(set = %set.meta, problem = %failed.problem.detail, "an execution got no answer");
                return Ok(match failed.outcome {
                    Outcome::NotExecuted => Attempt::NotSent,
                    _ => Attempt::Unknown,
                });
            }
        };
        let attempt = self.attempt_of(set, execution, &answer);
        if caller.is_some() {
            self.core.waiting.put_answer(execution.token, answer);
        }
        Ok(attempt)
    }

    /// What an answer says. A create that succeeded without telling an id is in doubt: what it made has to be
    /// found.
    fn attempt_of(&self, set: &Record, execution: &Execution, answer: &AppAnswer) -> Attempt {
        let status = answer.status;
        let is_create = matches!(execution.form, Form::Create { .. } | Form::CreateFrom { .. });
        if !is_create || !(200..400).contains(&status) {
            return Attempt::Answered { status, local: None };
        }
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let told = kind.id_in_answer(call::header(answer, "location"), &answer.body);
        let chosen = match execution.recognise {
            Recognise::ChosenId => Some(set.meta.as_str()),
            _ => set.name.as_deref(),
        };
        let Some(id) = told.as_deref().or(chosen) else {
            warn!(set = %set.meta, status, "a create was answered without the id of what it made");
            return Attempt::Unknown;
        };
        Attempt::Answered {
            status,
            local: Some(LocalId::new(id)),
        }
    }

    /// The recorded body, with its conditions where it has some: in the spool or in memory, where it can be
    /// changed.
    async fn body(
        &self,
        set: &Record,
        others: &[SiteName],
        request: &replica::Request,
        conditions: Option<&Conditions>,
        mark: Mark,
    ) -> Result<Kept, Unsent> {
        let inline = |bytes: Bytes| Kept {
            content: Content::Inline(bytes),
            _payload: None,
        };
        if let Some(conditional) = conditions.and_then(|conditions| conditions.body.as_deref()) {
            return Ok(inline(Bytes::copy_from_slice(conditional)));
        }
        let payload = match &request.body {
            replica::Body::Inline(recorded) => return Ok(inline(Bytes::copy_from_slice(recorded))),
            replica::Body::Spooled { hash, bytes } => PayloadRef {
                hash: (*hash).into(),
                bytes: *bytes,
            },
        };
        let fetched = self.fetcher.get(&payload, others).await.map_err(|error| {
            debug!(set = %set.meta, %error, "a payload is not here yet");
            Unsent::Later
        })?;
        let profile = self.core.surroundings.profile();
        let is_changed = self
            .with_ids(|ids| {
                let render = Render {
                    profile: &profile,
                    record: set,
                    ids,
                };
                Ok(render.changes_body(request, mark))
            })
            .map_err(|_| Unsent::Later)?;
        let max_bytes = self.core.surroundings.limits().replicated_answer_max_bytes as u64;
        if !is_changed || payload.bytes > max_bytes {
            return Ok(Kept {
                content: Content::Spooled(payload),
                _payload: Some(fetched),
            });
        }
        let spool = self.core.spool.clone();
        let read = spawn_blocking(move || {
            let mut bytes = Vec::new();
            let mut reader = spool.reader(&payload, 0).map_err(std::io::Error::other)?;
            reader.read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        });
        match read.await {
            Ok(Ok(bytes)) => Ok(inline(bytes.into())),
            _ => Err(Unsent::Later),
        }
    }

    async fn render(
        &self,
        set: &Record,
        form: &Form,
        content: Option<Content>,
        caller: Option<&Caller>,
        mark: Mark,
        credential: Option<&Secret>,
    ) -> Result<Order, Unsent> {
        let content = content.unwrap_or_else(|| Content::Inline(Bytes::new()));
        let current = match form {
            Form::Overwrite { local, .. } => self.current(set, local, credential).await?,
            _ => Bytes::new(),
        };
        let own = match form {
            Form::Overwrite { local, .. } | Form::Delete { local, .. } => local.as_str(),
            _ => "",
        };
        let key = self.local_key(set, own).ok_or(Unsent::Later)?;
        let profile = self.core.surroundings.profile();
        self.with_ids(|ids| {
            let render = Render {
                profile: &profile,
                record: set,
                ids,
            };
            match form {
                Form::Create { request } => render.create(request, content, caller, mark),
                Form::Repeat { request, local }
                | Form::Delete {
                    request: Some(request),
                    local,
                } => render.repeat(request, content, local, caller, mark),
                Form::CreateFrom { state } => render.create_from(&key, state, mark),
                Form::Overwrite { state, .. } => render.overwrite(&key, state, &current),
                Form::Delete { request: None, .. } => Ok(render.delete(&key)),
            }
        })
    }

    /// Does something with a translation to this site's ids, and finds out whether it lacked one: a parent or
    /// a reference that is replicated here but has no replica yet.
    fn with_ids<T>(
        &self,
        work: impl FnOnce(&dyn cheops_glue::Ids) -> Result<T, Problem>,
    ) -> Result<T, Unsent> {
        let read = self.core.store.read().map_err(|_| Unsent::Later)?;
        let ids = ToLocal::new(&read);
        let done = work(&ids);
        if ids.missing().is_empty() {
            done.map_err(Unsent::Never)
        } else {
            Err(Unsent::Later)
        }
    }

    /// What tells the resource among all of its kind here; none while a parent has no replica here.
    pub(super) fn local_key(&self, set: &Record, own: &str) -> Option<String> {
        let read = self.core.store.read().ok()?;
        rows::local_key(&read, &set.parents, own).ok()?
    }

    /// This site's replica as it is now.
    async fn current(
        &self,
        set: &Record,
        local: &LocalId,
        credential: Option<&Secret>,
    ) -> Result<Bytes, Unsent> {
        let answer = self.get(set, local, credential).await.ok_or(Unsent::Later)?;
        match answer.status {
            200..=299 => Ok(answer.body),
            status @ (404 | 410) => Err(Unsent::Answered(status)),
            _ => Err(Unsent::Later),
        }
    }

    pub(super) fn add_credential(&self, headers: &mut Headers, credential: Option<&Secret>) {
        // One that cannot be opened any more is the same as none: the application will say so.
        let opened = credential.and_then(|sealed| secret::open(&self.core.key, sealed).ok());
        for (name, value) in opened.into_iter().flatten() {
            headers.retain(|(found, _)| !found.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
    }
}

/// A repetition demands what its caller did: it must not overwrite what that had not seen.
fn add_conditions(headers: &mut Headers, conditions: Option<&Conditions>) {
    let conditions = conditions
        .map(|conditions| &conditions.headers[..])
        .unwrap_or_default();
    headers.retain(|(found, _)| !conditions.iter().any(|(name, _)| name == found));
    headers.extend(
        conditions
            .iter()
            .map(|(name, value)| (name.clone(), Bytes::copy_from_slice(value))),
    );
}

fn request_of(form: &Form) -> Option<&replica::Request> {
    match form {
        Form::Create { request } | Form::Repeat { request, .. } => Some(request),
        Form::Delete { request, .. } => request.as_ref(),
        Form::CreateFrom { .. } | Form::Overwrite { .. } => None,
    }
}
