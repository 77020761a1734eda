//! Writes to resources that span sites: how they span them, and who gets which part of a count.

use cheops_glue::{Effect, Kind};
use cheops_plan::Cross;
use cheops_replica::MetaId;
use cheops_types::{Code, Problem, Share, SiteName, Span, SpanForm};

use super::Reading;
use crate::rows;

impl Reading<'_> {
    /// How a new resource spans its sites.
    pub(super) fn span(&self, rules: &Kind, cross: &Cross) -> Result<Span, Problem> {
        let form = if rules.is_divisible() {
            SpanForm::Divided
        } else if rules.is_container() {
            SpanForm::Container
        } else {
            return Err(cheops_plan::cannot_span(rules.name()).at(&self.core.site));
        };
        Ok(Span {
            form,
            order: cross.sites.clone(),
            unreserved: cross.unreserved,
        })
    }

    /// The parts of the counts that a create sets.
    pub(super) fn first_shares(
        &self,
        rules: &Kind,
        span: &Span,
        body: &[u8],
        cross: &Cross,
    ) -> Result<Vec<Share>, Problem> {
        self.shares(rules, span, body, "", true, &cross.sites, &cross.weights)
    }

    /// The parts of the counts that a change sets; none for what is not divided.
    pub(super) fn next_shares(
        &self,
        rules: &Kind,
        meta: &MetaId,
        effect: Effect,
        below: &str,
        body: &[u8],
    ) -> Result<Vec<Share>, Problem> {
        let head = rows::head(self.read, meta).map_err(|error| self.failed(&error))?;
        let Some((span, sites, before)) = head.and_then(|head| Some((head.span?, head.sites, head.shares)))
        else {
            return Ok(Vec::new());
        };
        if matches!(effect, Effect::Delete) {
            return Ok(Vec::new());
        }
        let weights = before.first().map_or(&[][..], |share| &share.weights);
        let is_whole = effect == Effect::Replace;
        self.shares(rules, &span, body, below, is_whole, &sites, weights)
    }

    #[allow(clippy::too_many_arguments)] // each is one part of the division
    fn shares(
        &self,
        rules: &Kind,
        span: &Span,
        body: &[u8],
        below: &str,
        is_whole: bool,
        sites: &[SiteName],
        weights: &[(SiteName, u32)],
    ) -> Result<Vec<Share>, Problem> {
        if span.form != SpanForm::Divided {
            return Ok(Vec::new());
        }
        let counts = rules.counts(body, below, is_whole).map_err(|error| {
            let detail = format!("the body does not say what to divide: {error}; nothing executed");
            Problem::new(Code::BodyUnsupported, detail).at(&self.core.site)
        })?;
        let share = |(pointer, total)| span.divide(pointer, total, sites, weights);
        Ok(counts.into_iter().map(share).collect())
    }
}
