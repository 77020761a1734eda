//! Writes that are recorded in other words than those of their callers: a patch as the difference that it made, a
//! write to a free name as the create that it was.

use std::borrow::Cow;

use bytes::Bytes;
use cheops_glue::{self as glue, Address, Effect, Ids, Kind, Own, Profile};
use cheops_replica::{Execution, Footprint, Form, LocalId, Recast, Record, Request};
use cheops_types::{Code, KeptBody, Problem, SpanForm};
use tracing::debug;

use super::{Executor, divide::wholes_of, execute::Unsent, read::Access, render};
use crate::waiting::{AppAnswer, CallerHeaders};

/// What was found before a write executes.
pub(super) enum Before {
    /// Nothing that matters: the write is recorded as it is.
    Whatever,
    /// The document that a patch is about to change.
    Document(Bytes),
    /// No resource of that name.
    Free,
}

impl Executor {
    /// Looks at what a write is about, where that decides what is recorded of it or whether it may execute. A name
    /// that something else has is never overwritten.
    pub(super) async fn before(
        &self,
        set: &Record,
        execution: &Execution,
        caller: Option<&CallerHeaders>,
        access: Access<'_>,
    ) -> Result<Before, Unsent> {
        let profile = self.core.surroundings.profile();
        match &execution.form {
            Form::Create { request } if is_upsert(&profile, set, request) => {
                self.find_free(set, execution, caller, access).await
            }
            // Whoever repeats it later cannot tell what the first attempt did.
            Form::Repeat { request, local } if caller.is_some() && is_patch(&profile, set, request) => {
                let answer = self.get(set, local, access).await;
                let read = answer.filter(|answer| answer.status == 200);
                let shown = read.and_then(|answer| self.shown(set, local, &answer.body));
                Ok(shown.map_or(Before::Whatever, |shown| Before::Document(shown.into())))
            }
            _ => Ok(Before::Whatever),
        }
    }

    async fn find_free(
        &self,
        set: &Record,
        execution: &Execution,
        caller: Option<&CallerHeaders>,
        access: Access<'_>,
    ) -> Result<Before, Unsent> {
        let name = LocalId::new(set.name.as_deref().unwrap_or_default());
        let answer = self.get(set, &name, access).await.ok_or(Unsent::Later)?;
        match answer.status {
            404 | 410 => Ok(Before::Free),
            200..=299 => {
                let here = &self.core.site;
                let detail = format!(
                    "`{name}` exists at `{here}` and is no replica, so it is not overwritten: make it one with `cheops replicas adopt`, or drop `&` from the scope; nothing executed"
                );
                Err(Unsent::Never(Problem::new(Code::SetRefused, detail).at(here)))
            }
            status => {
                if caller.is_some() {
                    self.core.waiting.put_answer(execution.token, answer);
                }
                Err(Unsent::Answered(status))
            }
        }
    }

    /// What an accepted write has become.
    pub(super) async fn recast(
        &self,
        set: &Record,
        execution: &Execution,
        before: Before,
        answer: &AppAnswer,
        access: Access<'_>,
    ) -> Option<Recast> {
        let is_done = (200..300).contains(&answer.status);
        let recast = match (before, &execution.form) {
            (Before::Document(before), Form::Repeat { request, local }) if is_done => {
                let after = self.after(set, local, request, answer, access).await;
                after.and_then(|after| self.difference(set, request, &before, &after))
            }
            (Before::Free, Form::Create { request }) if is_done => {
                let local = LocalId::new(set.name.as_deref().unwrap_or_default());
                let after = self.after(set, &local, request, answer, access).await;
                after.and_then(|after| self.creation(set, request, &after))
            }
            (Before::Whatever, _) => return None,
            _ => None,
        };
        if recast.is_none() {
            debug!(set = %set.meta, status = answer.status, "a write is recorded as its caller sent it");
        }
        recast
    }

    /// The document after a write, in the words of all sites: the answer, if it is that, else it is read.
    async fn after(
        &self,
        set: &Record,
        local: &LocalId,
        request: &Request,
        answer: &AppAnswer,
        access: Access<'_>,
    ) -> Option<Vec<u8>> {
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let is_item = address(&profile, set, request).is_some_and(|address| address.below.is_empty());
        let is_document = is_item && kind.id_in_answer(None, &answer.body).as_deref() == Some(local.as_str());
        if is_document {
            return self.shown(set, local, &answer.body);
        }
        let read = self.get(set, local, access).await?;
        self.shown(set, local, &read.body).filter(|_| read.status == 200)
    }

    fn difference(&self, set: &Record, request: &Request, before: &[u8], after: &[u8]) -> Option<Recast> {
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let mut recorded = kind.difference(before, after).ok()?;
        let is_divided = set
            .span
            .as_ref()
            .is_some_and(|span| span.form == SpanForm::Divided);
        if !request.shares.is_empty() {
            // It is the same count that was divided, also where this site's part stays what it was.
            recorded.body = kind
                .with_counts(&recorded.body, "", wholes_of(&request.shares))
                .ok()?;
        } else if is_divided {
            // A part says nothing to the others; where the application changed it by itself, it is set right again.
            recorded.body = kind.without_counts(&recorded.body).ok()?;
        }
        let touches = match kind.touches(&Effect::Merge, "", &recorded.body) {
            glue::Touches::Whole => Footprint::Whole,
            glue::Touches::Parts(parts) => Footprint::Parts(parts),
        };
        let path = kind.item_path(&glue::join_key(&set.parents, "x"));
        let request = Request {
            method: recorded.method,
            path: profile.map_path(&set.service, &path, Own::Hole, &Same),
            headers: headers(&kind, request, &recorded.content_type),
            body: KeptBody::Inline(recorded.body.into()),
            scope: request.scope.clone(),
            caller: request.caller.clone(),
            shares: request.shares.clone(),
        };
        Some(Recast::Merge { touches, request })
    }

    fn creation(&self, set: &Record, request: &Request, after: &[u8]) -> Option<Recast> {
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let state = kind.portable(after).ok()?;
        let state = match request.shares.as_slice() {
            [] => state,
            shares => kind.with_counts(&state, "", wholes_of(shares)).ok()?,
        };
        let rendered = kind.create_from(&glue::join_key(&set.parents, ""), &state);
        let request = Request {
            method: rendered.method,
            path: rendered.path,
            headers: headers(&kind, request, &rendered.content_type),
            body: KeptBody::Inline(rendered.body.into()),
            scope: request.scope.clone(),
            caller: request.caller.clone(),
            shares: request.shares.clone(),
        };
        Some(Recast::Create { request })
    }
}

/// What the glue lists, with another content type.
fn headers(kind: &Kind, request: &Request, content_type: &str) -> Vec<(String, String)> {
    let listed = |name: &str| name != "content-type" && kind.recorded_headers().iter().any(|it| it == name);
    let kept = request.headers.iter().filter(|(name, _)| listed(name));
    let own = ("content-type".to_owned(), content_type.to_owned());
    kept.cloned().chain([own]).collect()
}

/// The resource that a recorded request is about.
pub(super) fn address<'a>(
    profile: &'a Profile,
    set: &'a Record,
    request: &'a Request,
) -> Option<Address<'a>> {
    let path = request.path.split(['?', '#']).next().unwrap_or_default();
    let mut within = profile.within(&set.service, path).into_iter();
    within.find(|address| address.kind == set.kind.as_str())
}

/// Whether a create is a write to the name itself, which a resource may have.
fn is_upsert(profile: &Profile, set: &Record, request: &Request) -> bool {
    let address = address(profile, set, request);
    address.is_some_and(|address| address.below.is_empty() && address.id.as_deref() == set.name.as_deref())
}

fn is_patch(profile: &Profile, set: &Record, request: &Request) -> bool {
    let address = address(profile, set, request);
    address.is_some_and(|address| {
        let effect = address.effect(&request.method, render::content_type(request));
        matches!(effect, Effect::Difference { .. })
    })
}

/// Ids that are those of all sites already.
pub(crate) struct Same;

impl Ids for Same {
    fn map(&self, _: &str, _: &str, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// How a recorded change is sent where it cannot be as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Join {
    Merge,
    Replace,
}

/// Whether a recorded change has to be joined with this site's replica: the values that only this site has are
/// its own, and not every application takes a difference.
pub(super) fn join(profile: &Profile, set: &Record, request: &Request, body: &[u8]) -> Option<Join> {
    let address = address(profile, set, request).filter(|address| address.below.is_empty())?;
    let kind: Cow<'_, Kind> = address.rules();
    let content_type = render::content_type(request);
    match address.effect(&request.method, content_type) {
        Effect::Replace if kind.replace_needs_current() => Some(Join::Replace),
        Effect::Merge if kind.merge_needs_current(content_type, body) => Some(Join::Merge),
        _ => None,
    }
}
