//! One meta-id, one set: which ids a new set may have, and which messages are of another set than the one here.

use cheops_replica::{Content, Message, MetaId, Set, Verb};
use cheops_store::Error;
use cheops_types::{Code, Limit, Problem};

use super::Batch;
use crate::{
    mint::{NewId, Part},
    rows,
};

impl Batch<'_> {
    /// An id that no set here has, nor ever had: a late write to what was deleted must not meet something new.
    pub(super) fn unused(&self, id: NewId) -> Result<MetaId, Problem> {
        match id {
            NewId::Given(meta) if self.is_used(&meta).map_err(|error| self.problem(&error))? => {
                let site = &self.engine.core.site;
                let detail = format!("`{site}` has a replica set `{meta}` already: try again");
                Err(Problem::new(Code::SetRefused, detail).at(site))
            }
            NewId::Given(meta) => Ok(meta),
            NewId::Integer(part) => self.draw(part),
        }
    }

    fn draw(&self, part: Part) -> Result<MetaId, Problem> {
        let core = &self.engine.core;
        let tries_max = core.surroundings.limits().meta_id_tries_max;
        for _ in 0..tries_max {
            let meta = part.draw(&*core.surroundings);
            if !self.is_used(&meta).map_err(|error| self.problem(&error))? {
                return Ok(meta);
            }
        }
        Limit::MetaIdTries.hit();
        let site = &core.site;
        let detail = format!(
            "`{site}` drew {tries_max} integers for a meta-id, and replica sets have them all: \
             widen the range of `meta-id` in the glue at every site"
        );
        Err(Problem::new(Code::GlueIncomplete, detail).at(site))
    }

    /// Whether a set has this id, also one that is deleted, was left, or began in this batch.
    fn is_used(&self, meta: &MetaId) -> Result<bool, Error> {
        let is_touched = self.before.contains_key(meta) || self.engine.cache.get(meta).is_some();
        Ok(is_touched || rows::row(&self.read, meta)?.is_some())
    }
}

/// Whether a message is about another set than the one that has its meta-id here: a site that lost its store drew
/// the id again, before it was told what it had lost.
///
/// ```text
/// site2  creates 7 (author site2, life 1)   loses its store   creates 7 (author site2, life 2)
/// site1  7: {site2/1}                                         7: {site2/2} arrives
/// ```
///
/// Taken, the second create would be one more operation of the first set: two resources under one id, one of them in no list.
pub(super) fn is_of_another_set(set: &Set, message: &Message) -> bool {
    match &message.content {
        // A set begins with a create and has no second one; whoever knows a set knows its create.
        Content::Operations(carried) => carried.iter().any(|carried| {
            matches!(carried.op.verb, Verb::Create(_)) && !set.held().includes(&carried.op.id)
        }),
        // Both sides of one set have the author of its create.
        Content::Snapshot(snapshot) => !set.held().iter().any(|(author, _)| snapshot.at.last(author) > 0),
        _ => false,
    }
}
