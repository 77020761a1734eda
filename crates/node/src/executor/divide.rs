//! Counts that are divided: what this site's application gets of a whole, and the whole that others see.

use std::borrow::Cow;

use bytes::Bytes;
use cheops_glue::Kind;
use cheops_replica::{Form, LocalId, Record, Request};
use cheops_types::{Code, KeptBody, Problem, Share, SiteName, SpanForm};

use http::header::CONTENT_LENGTH;
use tracing::{debug, warn};

use super::{Executor, execute::Unsent, read::Reading, render::Render};
use crate::{caller::OnBehalf, rows, waiting::AppAnswer};

impl Executor {
    /// A recorded body with this site's parts.
    pub(super) fn with_parts(
        &self,
        set: &Record,
        request: &Request,
        content: KeptBody,
    ) -> Result<KeptBody, Unsent> {
        if request.shares.is_empty() {
            return Ok(content);
        }
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let KeptBody::Inline(body) = &content else {
            let detail = "a body with a count to divide is too long to be changed; nothing executed";
            return Err(Unsent::Never(Problem::new(Code::BodyTooLarge, detail)));
        };
        let below = super::recast::address(&profile, set, request).map_or("", |address| address.below);
        let parts = parts_of(&self.core.site, &request.shares);
        let divided = kind.with_counts(body, below, parts);
        divided
            .map(|body| KeptBody::Inline(body.into()))
            .map_err(|error| Unsent::Never(Problem::new(Code::BodyUnsupported, error.to_string())))
    }

    /// Another replica's state with this site's parts.
    pub(super) fn state_with_parts<'s>(&self, set: &Record, state: &'s [u8]) -> Cow<'s, [u8]> {
        let shares = self.shares(set);
        if shares.is_empty() {
            return Cow::Borrowed(state);
        }
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let parts = parts_of(&self.core.site, &shares);
        kind.with_counts(state, "", parts)
            .map_or(Cow::Borrowed(state), Cow::Owned)
    }

    /// This site's replica with wholes instead of its parts, and what it has instead of them.
    pub(super) fn as_whole<'b>(&self, set: &Record, kind: &Kind, body: &'b [u8]) -> (Cow<'b, [u8]>, String) {
        let shares = self.shares(set);
        if shares.is_empty() {
            return (Cow::Borrowed(body), String::new());
        }
        let odd = |share: &Share| {
            let found = kind.count_in(body, &share.pointer);
            (found != Some(share.part_of(&self.core.site))).then(|| format!("{}={found:?} ", share.pointer))
        };
        let odd: String = shares.iter().filter_map(odd).collect();
        let whole = kind.with_counts(body, "", wholes_of(&shares));
        (whole.map_or(Cow::Borrowed(body), Cow::Owned), odd)
    }

    /// Gives this site's replica the part that it should have: somebody changed it, or an attempt that came to nothing did.
    pub(super) async fn set_part_right(
        &self,
        set: &Record,
        local: &LocalId,
        on_behalf: &OnBehalf,
        reading: &Reading,
        current: &[u8],
    ) {
        let state = self.state_with_parts(set, &reading.portable);
        let Some(key) = self.local_key(set, local.as_str()) else {
            return;
        };
        let profile = self.core.surroundings.profile();
        let order = self.with_ids(|ids| {
            let render = Render {
                profile: &profile,
                record: set,
                ids,
            };
            render.overwrite(&key, &state, current)
        });
        let Ok(Some(mut order)) = order else {
            return;
        };
        if let Err(why) = self.speak(&mut order.headers, set, on_behalf).await {
            return debug!(set = %set.meta, why, "a part cannot be set right");
        }
        let status = self
            .call(&set.service, order, "")
            .await
            .map(|answer| answer.status);
        warn!(set = %set.meta, found = reading.odd, ?status, "a part was not what it should be and is set right");
    }

    /// What the caller of a write sees: wholes.
    pub(super) fn shown_as_whole(&self, set: &Record, form: &Form, mut answer: AppAnswer) -> AppAnswer {
        let own = match form {
            Form::Create { request } | Form::Repeat { request, .. } => request.shares.as_slice(),
            _ => &[],
        };
        let shares = match own {
            [] => self.shares(set),
            own => own.to_vec(),
        };
        if shares.is_empty() || answer.body.is_empty() || !(200..300).contains(&answer.status) {
            return answer;
        }
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        if let Ok(whole) = kind.whole(&[&answer.body], wholes_of(&shares)) {
            answer.body = Bytes::from(whole);
            answer.headers.remove(CONTENT_LENGTH);
        }
        answer
    }

    /// How counts of a set are divided now.
    fn shares(&self, set: &Record) -> Vec<Share> {
        let is_divided = set
            .span
            .as_ref()
            .is_some_and(|span| span.form == SpanForm::Divided);
        if !is_divided {
            return Vec::new();
        }
        let head = self.core.store.read_with(|read| rows::head(read, &set.meta));
        head.ok().flatten().map_or_else(Vec::new, |head| head.shares)
    }
}

pub(super) fn wholes_of(shares: &[Share]) -> impl Iterator<Item = (&str, u64)> {
    shares.iter().map(|share| (share.pointer.as_str(), share.total()))
}

fn parts_of<'s>(here: &'s SiteName, shares: &'s [Share]) -> impl Iterator<Item = (&'s str, u64)> {
    shares
        .iter()
        .map(move |share| (share.pointer.as_str(), share.part_of(here)))
}
