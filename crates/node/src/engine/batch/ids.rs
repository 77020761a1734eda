//! One meta-id, one set: which ids a new set may have, and which messages are of another set than the one here.

use std::collections::BTreeSet;

use cheops_glue::join_key;
use cheops_replica::{Birth, Content, Draft, Message, MetaId, Need, Record, Set, Standing, Verb};
use cheops_store::{Error, Read as _, Span, tables::SetRow};
use cheops_types::{Code, Limit, Problem, SiteName};

use super::Batch;
use crate::{
    mint::{NewId, Part},
    named, problems,
    rows::{self, Head, HeadStanding, SetsByName},
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
            NewId::Named => {
                let site = &self.engine.core.site;
                let detail = format!("`{site}` cannot begin a replica set without a name");
                Err(Problem::new(Code::SetRefused, detail).at(site))
            }
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
        Content::Operations(carried) => carried.iter().any(|carried| match &carried.op.verb {
            Verb::Create(birth) if birth.name.is_some() => !is_named_alike(set.record(), birth),
            // Without a name a set begins with a create and has no second one; whoever knows a set knows its create.
            Verb::Create(_) => !set.held().includes(&carried.op.id),
            _ => false,
        }),
        // Both sides of one set have the author of its create.
        Content::Snapshot(snapshot) => !set.held().iter().any(|(author, _)| snapshot.at.last(author) > 0),
        _ => false,
    }
}

/// Whether a set is of the name that a create is of.
fn is_named_alike(record: &Record, birth: &Birth) -> bool {
    (&record.service, &record.kind) == (&birth.service, &birth.kind)
        && (&record.parents, &record.name) == (&birth.parents, &birth.name)
}

impl Batch<'_> {
    /// The create of a name that its client chose.
    ///
    /// ```text
    /// nobody has the name                         its set begins
    /// a set of the same sites has it, or had it   the create goes there: the application decides, or it is made again
    /// a set of other sites has it                 refused
    /// a set that cannot be used again had it      the next generation, which waits until that one is gone
    /// ```
    pub(super) fn create_named(&mut self, mut draft: Draft) {
        let token = draft.token;
        match self.place_of(&mut draft) {
            Ok(Place::Known(meta)) => self.request(&meta, draft),
            Ok(Place::New(meta)) => self.create(NewId::Given(meta), draft),
            Err(problem) => self.fail(token, problem),
        }
    }

    fn place_of(&mut self, draft: &mut Draft) -> Result<Place, Problem> {
        /// Nobody makes so many generations of one name; a peer may.
        const GENERATIONS_MAX: u32 = 1_000;
        let Verb::Create(birth) = &mut draft.verb else {
            return Err(problems::unknown_set(&self.engine.core.site, &MetaId::new("")));
        };
        let is_container = self.is_container(birth);
        let mut earlier = BTreeSet::new();
        let mut last = None;
        for generation in 0..GENERATIONS_MAX {
            birth.generation = generation;
            let Some(meta) = named::derive(birth) else {
                break;
            };
            earlier.insert(meta.clone());
            if !self.load(&meta).map_err(|error| self.problem(&error))? {
                self.refuse_rival(birth, &earlier)?;
                // Each one waits for the one before it.
                let last = last.map(|set| Need { set, gone: true });
                draft.needs.extend(last);
                return Ok(Place::New(meta));
            }
            let Some(held) = self.engine.cache.get(&meta) else {
                break;
            };
            if is_usable(&held.kept.set, birth, is_container) {
                self.refuse_rival(birth, &earlier)?;
                return Ok(Place::Known(meta));
            }
            // One that this site has left may live on elsewhere: nobody waits for that.
            if held.kept.set.is_deleted() {
                last = Some(meta);
            }
        }
        let site = &self.engine.core.site;
        let detail =
            format!("`{site}` has too many replica sets of this name that were deleted: choose another name");
        Err(Problem::new(Code::SetRefused, detail).at(site))
    }

    /// What is in a container went with it: one that is made again begins empty, as a set of its own.
    fn is_container(&self, birth: &Birth) -> bool {
        let profile = self.engine.core.surroundings.profile();
        profile.may_contain(&birth.service, &birth.kind)
    }

    /// A name that another set has here is not given to a second one.
    fn refuse_rival(&self, birth: &Birth, own: &BTreeSet<MetaId>) -> Result<(), Problem> {
        let Some(name) = &birth.name else {
            return Ok(());
        };
        let key = (
            birth.service.clone(),
            birth.kind.clone(),
            join_key(&birth.parents, name),
        );
        let named = self.read.by::<SetsByName>(&Span::under(&key), usize::MAX);
        let named = named.map_err(|error| self.problem(&error))?;
        // Of other sites, or adopted: a create of that one would not be told by its name.
        let is_rival = |meta: &String, row: &SetRow<Head>| {
            row.head.standing == HeadStanding::Member && !own.contains(&MetaId::new(meta))
        };
        let mut named = named.into_iter();
        let Some((meta, row)) = named.find(|(meta, row)| is_rival(meta, row)) else {
            return Ok(());
        };
        let site = &self.engine.core.site;
        let sites: Vec<_> = row.head.sites.iter().map(SiteName::as_str).collect();
        let detail = format!(
            "`{name}` is a replica set of {} already, `{meta}`: write to it without `&`, or change its sites with \
             `cheops replicas add-site` and `remove-site`; nothing executed",
            sites.join(", ")
        );
        Err(Problem::new(Code::SetRefused, detail).at(site))
    }
}

/// Where a create belongs.
enum Place {
    New(MetaId),
    Known(MetaId),
}

/// Whether a create can be an operation of a set that is here already.
fn is_usable(set: &Set, birth: &Birth, is_container: bool) -> bool {
    let is_member = set.standing() == Standing::Member && is_named_alike(set.record(), birth);
    let is_first_list =
        set.members().keys().eq(&birth.sites) && birth.sites.iter().all(|site| !set.has_moved(site));
    is_member && (!set.is_deleted() || is_first_list && !is_container)
}
