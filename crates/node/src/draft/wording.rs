//! Bodies in the words of all sites.

use std::{borrow::Cow, io::Read as _};

use bytes::Bytes;
use cheops_glue::{Address, Effect, Kind, NotJson, Own};
use cheops_store::PayloadRef;
use cheops_types::{Code, KeptBody, Problem};

use super::Reading;
use crate::{ids::ToMeta, problems};

/// A body with meta-ids instead of any others.
pub(super) struct Wording {
    pub(super) recorded: KeptBody,
    /// With its preconditions, where it has some.
    pub(super) first: Option<Bytes>,
    /// Nothing in it had to be changed.
    pub(super) is_as_sent: bool,
}

impl Reading<'_> {
    /// The body, if it is one that has to be read, or need not be read back.
    pub(super) fn readable(&self, address: &Address<'_>, effect: Effect) -> Result<Option<Bytes>, Problem> {
        match self.write.request.body() {
            KeptBody::Inline(body) => Ok(Some(body.clone())),
            KeptBody::Spooled { .. } if !address.reads_request_body(&effect) => Ok(None),
            KeptBody::Spooled { hash, bytes } => {
                let (hash, bytes) = ((*hash).into(), *bytes);
                self.read_spooled(&PayloadRef { hash, bytes }).map(Some)
            }
        }
    }

    fn read_spooled(&self, payload: &PayloadRef) -> Result<Bytes, Problem> {
        let here = &self.core.site;
        let max = self.core.surroundings.limits().replicated_answer_max_bytes;
        if payload.bytes > max as u64 {
            let detail = format!(
                "the body has ids in it and {} bytes; at most {max} can be read for them",
                payload.bytes
            );
            return Err(Problem::new(Code::BodyTooLarge, detail).at(here));
        }
        let mut body = Vec::with_capacity(payload.bytes as usize);
        let reader = self.core.spool.reader(payload, 0);
        let mut reader = reader.map_err(|error| problems::spool(here, &error))?;
        reader.read_to_end(&mut body).map_err(|error| {
            let detail = format!("the body cannot be read back at `{here}`: {error}");
            Problem::new(Code::StoreFull, detail).at(here)
        })?;
        Ok(body.into())
    }

    /// Exchanges the ids in a body that [`Reading::readable`] gave, and takes its preconditions out.
    pub(super) fn wording(
        &self,
        address: &Address<'_>,
        rules: &Kind,
        effect: Effect,
        body: Option<Bytes>,
        own: Own<'_>,
        ids: &ToMeta<'_>,
    ) -> Result<Wording, Problem> {
        let is_read = address.reads_request_body(&effect);
        let Some(body) = body.filter(|body| is_read && !body.is_empty()) else {
            return Ok(Wording {
                recorded: self.write.request.body().clone(),
                first: None,
                is_as_sent: true,
            });
        };
        let unreadable = |error: NotJson| self.unreadable(&error);
        let mapped = address.map_body(&body, own, ids).map_err(unreadable)?;
        let plain = rules.without_preconditions(&mapped).map_err(unreadable)?;
        let first = match &plain {
            Cow::Owned(plain) if plain[..] != mapped[..] => Some(Bytes::copy_from_slice(&mapped)),
            _ => None,
        };
        let is_as_sent = plain[..] == body[..];
        let recorded = if is_as_sent {
            self.write.request.body().clone()
        } else {
            KeptBody::Inline(plain.into_owned().into())
        };
        Ok(Wording {
            recorded,
            first,
            is_as_sent,
        })
    }

    pub(super) fn unreadable(&self, error: &NotJson) -> Problem {
        let detail = format!(
            "the body of `{} {}` has to be read and is no JSON: {error}",
            self.write.request.method(),
            self.write.request.uri()
        );
        Problem::new(Code::BodyUnsupported, detail).at(&self.core.site)
    }
}
