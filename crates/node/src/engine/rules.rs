//! What the engine asks of the glue and of other sets.

use cheops_glue::{Effect, Kind, Meaning};
use cheops_replica::{
    LocalId, MetaId, Operation, Presence, Reading, Record, Rules, Set, Standing, Verb, default_reading,
};
use cheops_store::{Error, Read, ReadSession, Span};

use super::cache::Cache;
use crate::rows::{self, HeadStanding, SetsByLocalKey};

/// The rules of one set's kind, and the other sets of this site.
pub(super) struct SiteRules<'r> {
    /// None where no answer can be read yet.
    pub(super) kind: Option<&'r Kind>,
    /// Sets of this batch, as they are now.
    pub(super) cache: &'r Cache,
    pub(super) read: &'r ReadSession,
}

impl Rules for SiteRules<'_> {
    fn reading(&self, operation: &Operation, status: u16) -> Reading {
        let kind = self.kind.zip(effect(&operation.verb));
        kind.and_then(|(kind, effect)| kind.meaning(&effect, status))
            .map_or_else(|| default_reading(operation, status), reading)
    }

    fn presence(&self, set: &MetaId) -> Presence {
        if let Some(held) = self.cache.get(set) {
            return presence(&held.kept.set);
        }
        match rows::head(self.read, set) {
            Ok(None) => Presence::Uninvolved,
            Ok(Some(head)) => match head.standing {
                HeadStanding::Out => Presence::Uninvolved,
                HeadStanding::Deleted => Presence::Gone,
                HeadStanding::Member if head.local.is_some() => Presence::Here,
                HeadStanding::Member => Presence::Pending,
            },
            // To wait is never wrong; the next wake asks again.
            Err(_) => Presence::Pending,
        }
    }

    fn is_anothers(&self, record: &Record, local: &LocalId) -> bool {
        let others = || {
            let Some(key) = rows::local_key(self.read, &record.parents, local.as_str())? else {
                return Ok(false);
            };
            let place = Span::under(&(record.service.clone(), record.kind.clone(), key));
            let found = self.read.by::<SetsByLocalKey>(&place, usize::MAX)?;
            Ok::<_, Error>(found.iter().any(|(meta, _)| meta != record.meta.as_str()))
        };
        // Where that cannot be read, it is not taken from anybody.
        others().unwrap_or(true)
    }
}

fn presence(set: &Set) -> Presence {
    match set.standing() {
        Standing::Left | Standing::Expelled => Presence::Uninvolved,
        Standing::Member if set.is_deleted() => Presence::Gone,
        Standing::Member if set.local().is_some() => Presence::Here,
        Standing::Member => Presence::Pending,
    }
}

fn effect(verb: &Verb) -> Option<Effect> {
    match verb {
        Verb::Create(_) => Some(Effect::Create),
        Verb::Replace => Some(Effect::Replace),
        Verb::Merge => Some(Effect::Merge),
        Verb::Action { commutes, idempotent } => Some(Effect::Action {
            commutes: *commutes,
            idempotent: *idempotent,
        }),
        Verb::Delete => Some(Effect::Delete),
        _ => None,
    }
}

fn reading(meaning: Meaning) -> Reading {
    match meaning {
        Meaning::Done => Reading::Done,
        Meaning::Refused => Reading::Refused,
        Meaning::NeedsCredentials => Reading::NeedsCredentials,
        Meaning::Blocked => Reading::Blocked,
        Meaning::Retry => Reading::Retry,
        Meaning::Unknown => Reading::Unknown,
    }
}
