//! Executions at this site's application.

use std::{borrow::Cow, io::Read as _};

use bytes::Bytes;
use cheops_replica::{
    self as replica, Attempt, Conditions, Execution, Form, LocalId, Recast, Recognise, Record,
};
use cheops_store::{Payload, PayloadRef};
use cheops_types::{KeptBody, Outcome, Problem, SiteName};
use http::{
    HeaderValue,
    header::{CONTENT_TYPE, LOCATION},
};
use tokio::task::spawn_blocking;
use tracing::{debug, warn};

use super::{
    Executor,
    lawful::Asked,
    read::Access,
    recast,
    render::{AppRequest, Mark, Render},
    speak::Spoken,
};
use crate::{
    caller::{OnBehalf, only_recorded},
    ids::ToLocal,
    problems, rows,
    secret::Headers,
    waiting::{AppAnswer, CallerHeaders},
};

/// An answer that counts as the application's last word, so that the replica is degraded and shown with the reason.
const REFUSED: u16 = 422;

/// Why nothing was sent.
pub(super) enum Unsent {
    /// Something that it needs is not here (yet), or could not be read: it can be tried again.
    Later,
    /// It can never be sent like this; the answer of the application would be the same.
    Never(Problem),
    /// The application answered something else first.
    Answered(u16),
    /// The same, with its words or with what has to be done about it.
    Refused { status: u16, said: Option<String> },
    /// It was sent, and its connection ended without an answer.
    Broken,
}

/// What came of an execution.
pub(crate) struct Executed {
    pub(crate) attempt: Attempt,
    /// What an accepted write is recorded as instead.
    pub(crate) recast: Option<Recast>,
}

/// The connection of an execution ended without an answer: it may have executed, and is not under way any more
/// as far as anyone can tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The body of a request on its way, kept in the spool until it has ended.
struct Kept {
    content: KeptBody,
    _payload: Option<Payload>,
}

impl Executor {
    pub(crate) async fn execute(
        &self,
        set: &Record,
        others: &[SiteName],
        stand_in: &OnBehalf,
        execution: Execution,
    ) -> Result<Executed, Broken> {
        let caller = self.core.waiting.take_caller(execution.token);
        let core = &self.core;
        let is_believed = |by: &SiteName| *by == core.site || core.surroundings.believes(by);
        let on_behalf = OnBehalf::of(&execution, stand_in, is_believed);
        let mut recast = None;
        let attempt = self.attempt(
            set,
            others,
            &on_behalf,
            &execution,
            caller.as_deref(),
            &mut recast,
        );
        let attempt = match attempt.await {
            Err(Unsent::Broken) => return Err(Broken),
            attempt => self.attempt_or_not(set, &execution, caller.is_some(), attempt),
        };
        let did_nothing = matches!(attempt, Attempt::NotSent | Attempt::Answered { status: 503, .. });
        if let Some(caller) = caller.filter(|_| did_nothing) {
            // If it was promised, the next attempt is its first.
            self.core.waiting.give_back(execution.token, caller);
        }
        Ok(Executed { attempt, recast })
    }

    /// What became of it, also where nothing was sent.
    fn attempt_or_not(
        &self,
        set: &Record,
        execution: &Execution,
        has_caller: bool,
        attempt: Result<Attempt, Unsent>,
    ) -> Attempt {
        match attempt {
            Ok(attempt) => attempt,
            Err(Unsent::Later) => Attempt::NotSent,
            Err(Unsent::Broken) => Attempt::Unknown,
            Err(Unsent::Answered(status)) => answered(status, None),
            Err(Unsent::Refused { status, said }) => answered(status, said),
            Err(Unsent::Never(problem)) => {
                warn!(set = %set.meta, problem = %problem.detail, "a request cannot be rendered");
                let status = problem.status();
                if has_caller {
                    let content_type = HeaderValue::from_static(Problem::CONTENT_TYPE);
                    let answer = AppAnswer {
                        status,
                        headers: [(CONTENT_TYPE, content_type)].into_iter().collect(),
                        body: problem.to_bytes().into(),
                    };
                    self.core.waiting.put_answer(execution.token, answer);
                }
                answered(status, Some(problem.detail))
            }
        }
    }

    async fn attempt(
        &self,
        set: &Record,
        others: &[SiteName],
        on_behalf: &OnBehalf,
        execution: &Execution,
        caller: Option<&CallerHeaders>,
        recast: &mut Option<Recast>,
    ) -> Result<Attempt, Unsent> {
        let mark = Mark {
            recognise: execution.recognise,
            token: execution.token,
            renewal: execution.renewal,
        };
        self.is_whole(set, &execution.form)?;
        if let Some(source) = &on_behalf.unbelieved {
            // It is nobody's, and waits for a credential.
            let said = format!(
                "this state comes from site `{source}`, which may not vouch for anyone here: see `vouch` in [sites.{source}], or retry it with a credential"
            );
            return Err(Unsent::Refused {
                status: 401,
                said: Some(said),
            });
        }
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
            None => self.slots.acquire().await.ok(),
        };
        if caller.is_none() && self.core.calls.is_stopping() {
            return Err(Unsent::Later);
        }
        let access = caller.map_or(Access::OnBehalf(on_behalf), Access::Caller);
        let content = match (&kept, request) {
            (Some(kept), Some(request)) => Some(self.with_parts(set, request, kept.content.clone())?),
            _ => None,
        };
        let before = self.before(set, execution, caller, access).await?;
        let mut order = self.render(set, execution, content, caller, mark, access).await?;
        let mut spoken = Spoken::default();
        if caller.is_none() {
            self.is_lawful(set, &execution.form, &order)?;
            let profile = self.core.surroundings.profile();
            only_recorded(&profile.kind(&set.service, &set.kind), &mut order.headers);
            add_conditions(&mut order.headers, execution.conditions.as_ref());
            let added = self.speak(&mut order.headers, set, on_behalf).await;
            // The application would say so: it is nobody's.
            spoken = added.map_err(|why| Unsent::Refused {
                status: 401,
                said: Some(why),
            })?;
        }
        let scope = request.map_or("", |request| request.scope.as_str());
        let called = self.call(&set.service, order, scope).await;
        drop((kept, place));
        let answer = match called {
            Ok(answer) => answer,
            Err(failed) => {
                debug!(set = %set.meta, problem = %failed.problem.detail, "an execution got no answer");
                return match failed.outcome {
                    Outcome::NotExecuted => Ok(Attempt::NotSent),
                    _ if failed.is_broken => Err(Unsent::Broken),
                    _ => Ok(Attempt::Unknown),
                };
            }
        };
        if caller.is_none() && self.meets_a_leaver(set, execution, &answer, access).await {
            return Ok(Attempt::NotSent);
        }
        *recast = self.recast(set, execution, before, &answer, access).await;
        let mut attempt = self.attempt_of(set, execution, &answer);
        if answer.status == 401 && caller.is_none() {
            self.unheard(&spoken).await;
            explain(&mut attempt, spoken.why);
        }
        if caller.is_some() {
            let answer = self.shown_as_whole(set, &execution.form, answer);
            self.core.waiting.put_answer(execution.token, answer);
        }
        Ok(attempt)
    }

    /// What another site recorded is sent only if the glue gives such a request for the set.
    fn is_lawful(&self, set: &Record, form: &Form, order: &AppRequest) -> Result<(), Unsent> {
        let own = own_id(form);
        let key = self.local_key(set, own).ok_or(Unsent::Later)?;
        let profile = self.core.surroundings.profile();
        let asked = Asked {
            profile: &profile,
            set,
            form,
            key: &key,
        };
        asked.check(order).map_err(|wrong| {
            warn!(set = %set.meta, wrong, "an operation is not executed: it asks for what is none of its business");
            let said = format!("{wrong}: this site does not execute it");
            Unsent::Refused {
                status: REFUSED,
                said: Some(said),
            }
        })
    }

    /// A replica that is made from the state of another has no parts: it would pass for one and be empty.
    fn is_whole(&self, set: &Record, form: &Form) -> Result<(), Unsent> {
        let profile = self.core.surroundings.profile();
        let is_from_state = matches!(form, Form::CreateFrom { .. });
        if !is_from_state || !profile.kind(&set.service, &set.kind).has_parts() {
            return Ok(());
        }
        let what = "the replica is not made again";
        let instead = "delete the resource and create it anew, and send its data then";
        let kind = (set.service.as_str(), set.kind.as_str());
        let problem = problems::without_parts(&self.core.site, kind, what, instead);
        Err(Unsent::Refused {
            status: REFUSED,
            said: Some(problem.detail),
        })
    }

    /// What an answer says. A create that succeeded without telling an id is in doubt: what it made has to be
    /// found.
    fn attempt_of(&self, set: &Record, execution: &Execution, answer: &AppAnswer) -> Attempt {
        let status = answer.status;
        let is_create = matches!(execution.form, Form::Create { .. } | Form::CreateFrom { .. });
        let profile = self.core.surroundings.profile();
        if status >= 400 {
            return answered(status, profile.error_text(&set.service, &answer.body));
        }
        if !is_create || status < 200 {
            return answered(status, None);
        }
        let kind = profile.kind(&set.service, &set.kind);
        let location = answer.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let told = kind.id_in_answer(location, &answer.body);
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
            said: None,
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
            content: KeptBody::Inline(bytes),
            _payload: None,
        };
        if let Some(conditional) = conditions.and_then(|conditions| conditions.body.as_deref()) {
            return Ok(inline(Bytes::copy_from_slice(conditional)));
        }
        let payload = match &request.body {
            KeptBody::Inline(recorded) => return Ok(inline(recorded.clone())),
            KeptBody::Spooled { hash, bytes } => PayloadRef {
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
                content: request.body.clone(),
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
        execution: &Execution,
        content: Option<KeptBody>,
        caller: Option<&CallerHeaders>,
        mark: Mark,
        access: Access<'_>,
    ) -> Result<AppRequest, Unsent> {
        let form = &execution.form;
        let content = content.unwrap_or(KeptBody::EMPTY);
        let join = match (form, &content) {
            // What a caller demands is between it and the application: it goes as it came.
            (Form::Repeat { request, .. }, KeptBody::Inline(body))
                if caller.is_none() && execution.conditions.is_none() =>
            {
                recast::join(&self.core.surroundings.profile(), set, request, body)
            }
            _ => None,
        };
        let current = match form {
            Form::Overwrite { local, .. } | Form::Remake { local, .. } => {
                self.current(set, local, access).await?
            }
            Form::Repeat { local, .. } if join.is_some() => self.current(set, local, access).await?,
            _ => Bytes::new(),
        };
        let key = self.local_key(set, own_id(form)).ok_or(Unsent::Later)?;
        let profile = self.core.surroundings.profile();
        let installed = match form {
            Form::CreateFrom { state } | Form::Overwrite { state, .. } => self.state_with_parts(set, state),
            _ => Cow::Borrowed(&[][..]),
        };
        let order = self.with_ids(|ids| {
            let render = Render {
                profile: &profile,
                record: set,
                ids,
            };
            if let (Some(join), Form::Repeat { request, local }, KeptBody::Inline(body)) =
                (join, form, &content)
            {
                return render.join(join, request, body, local, &key, &current);
            }
            match form {
                Form::Create { request } => render.create(request, content, caller, mark),
                Form::Remake { request, local } => {
                    return render.remake(request, &content, local, &key, &current);
                }
                Form::Repeat { request, local }
                | Form::Delete {
                    request: Some(request),
                    local,
                } => render.repeat(request, content, local, caller, mark),
                Form::CreateFrom { .. } => render.create_from(&key, &installed, mark),
                Form::Overwrite { .. } => return render.overwrite(&key, &installed, &current),
                Form::Delete { request: None, .. } => Ok(render.delete(&key)),
            }
            .map(Some)
        })?;
        // It is like that already.
        order.ok_or(Unsent::Answered(200))
    }

    /// Whether a create was refused because of something that is about to go: then its name will be free.
    async fn meets_a_leaver(
        &self,
        set: &Record,
        execution: &Execution,
        answer: &AppAnswer,
        access: Access<'_>,
    ) -> bool {
        let is_create = matches!(execution.form, Form::Create { .. } | Form::CreateFrom { .. });
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let Some(name) = set.name.as_deref().filter(|_| is_create && answer.status == 409) else {
            return false;
        };
        if !kind.can_be_leaving() {
            return false;
        }
        let found = self.get(set, &LocalId::new(name), access).await;
        found.is_some_and(|found| found.status == 200 && kind.is_leaving(&found.body))
    }

    /// Does something with a translation to this site's ids, and finds out whether it lacked one: a parent or
    /// a reference that is replicated here but has no replica yet.
    pub(super) fn with_ids<T>(
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
    async fn current(&self, set: &Record, local: &LocalId, access: Access<'_>) -> Result<Bytes, Unsent> {
        let answer = self.get(set, local, access).await.ok_or(Unsent::Later)?;
        match answer.status {
            200..=299 => Ok(answer.body),
            status @ (404 | 410) => Err(Unsent::Answered(status)),
            status @ (401 | 403) => {
                let profile = self.core.surroundings.profile();
                let said = profile.error_text(&set.service, &answer.body);
                Err(Unsent::Refused { status, said })
            }
            _ => Err(Unsent::Later),
        }
    }
}

/// The id that the resource has here; empty while it is being made.
fn own_id(form: &Form) -> &str {
    match form {
        Form::Overwrite { local, .. }
        | Form::Remake { local, .. }
        | Form::Delete { local, .. }
        | Form::Repeat { local, .. } => local.as_str(),
        Form::Create { .. } | Form::CreateFrom { .. } => "",
    }
}

fn answered(status: u16, said: Option<String>) -> Attempt {
    Attempt::Answered {
        status,
        local: None,
        said,
    }
}

/// A refusal is explained by what the operator can do about it, before the application's own words.
fn explain(attempt: &mut Attempt, why: Option<String>) {
    if let (Attempt::Answered { said, .. }, Some(why)) = (attempt, why) {
        *said = Some(match said.take() {
            Some(said) => format!("{why} ({said})"),
            None => why,
        });
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
        Form::Create { request } | Form::Remake { request, .. } | Form::Repeat { request, .. } => {
            Some(request)
        }
        Form::Delete { request, .. } => request.as_ref(),
        Form::CreateFrom { .. } | Form::Overwrite { .. } => None,
    }
}
