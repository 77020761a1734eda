//! Which set an id means here, and what other ids it has.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use cheops_glue::{IdRule, Ids, Profile, join_key, split_key};
use cheops_plan::Known;
use cheops_replica::MetaId;
use cheops_store::{Error, Read, ReadSession, Span, tables::SetRow};
use cheops_types::{Problem, ServiceName};

use crate::{
    core::Core,
    problems,
    rows::{self, Head, HeadStanding, SetsByLocalKey, SetsByName},
};

/// Finds sets by any of their ids, as of one moment.
#[derive(Clone, Copy)]
pub(crate) struct Finder<'r> {
    read: &'r ReadSession,
    /// Tells the kinds of parents, whose ids a caller may have written in any form. Without one, parents are
    /// taken to be meta-ids.
    profile: Option<&'r Profile>,
}

impl<'r> Finder<'r> {
    pub(crate) fn new(read: &'r ReadSession, profile: &'r Profile) -> Self {
        Self {
            read,
            profile: Some(profile),
        }
    }

    /// The set that one resource belongs to, by a meta-id, a name or this site's local id. A name that a
    /// deleted resource had is free.
    pub(crate) fn find(
        &self,
        service: &str,
        kind: &str,
        id: &str,
        key: &str,
    ) -> Result<Option<(MetaId, SetRow<Head>)>, Error> {
        let is_meant = |row: &SetRow<Head>| row.service.as_str() == service && row.kind == kind;
        let meta = MetaId::new(id);
        // The meta-id of what clients name can be guessed, and chosen as a name.
        if !self.is_named_by_clients(service, kind)
            && let Some(row) = rows::row(self.read, &meta)?.filter(is_meant)
        {
            return Ok(Some((meta, row)));
        }
        let Ok(service) = ServiceName::new(service) else {
            return Ok(None);
        };
        let (by_meta, by_local) = self.keys(&service, kind, id, key)?;
        let named = (service.clone(), kind.to_owned(), by_meta);
        let mut named = self.read.by::<SetsByName>(&Span::under(&named), usize::MAX)?;
        named.retain(|(_, row)| row.head.standing != HeadStanding::Deleted);
        named.sort_by_key(|(_, row)| row.head.standing != HeadStanding::Member);
        if let Some((meta, row)) = named.into_iter().next() {
            return Ok(Some((MetaId::new(&meta), row)));
        }
        let Some(by_local) = by_local else {
            return Ok(None);
        };
        let local = (service, kind.to_owned(), by_local);
        for (meta, row) in self.read.by::<SetsByLocalKey>(&Span::under(&local), usize::MAX)? {
            let meta = MetaId::new(&meta);
            // The path is another resource's now, if it is anyone's.
            if key == id || !rows::is_orphan(self.read, &meta)? {
                return Ok(Some((meta, row)));
            }
        }
        Ok(None)
    }

    fn is_named_by_clients(&self, service: &str, kind: &str) -> bool {
        self.profile
            .is_some_and(|profile| profile.kind(service, kind).id_rule() == IdRule::Client)
    }

    /// The key with its parents' meta-ids, and with the ids that they have here; none where one has none.
    fn keys(
        &self,
        service: &ServiceName,
        kind: &str,
        id: &str,
        key: &str,
    ) -> Result<(String, Option<String>), Error> {
        if key == id {
            return Ok((key.to_owned(), Some(key.to_owned())));
        }
        let mut parents: Vec<String> = split_key(key, key.matches('/').count() + 1)
            .into_iter()
            .map(String::from)
            .collect();
        parents.pop();
        if let Some(profile) = self.profile {
            let path = profile.kind(service, kind).item_path(key);
            // Innermost first, the resource itself in front. Not every placeholder is the id of something.
            for address in profile.within(service, &path).iter().skip(1) {
                if let (Some(id), Some(key)) = (&address.id, &address.key)
                    && let Some(parent) = parents.get_mut(key.matches('/').count())
                    && let Some((meta, _)) = self.find(service, &address.kind, id, key)?
                {
                    meta.as_str().clone_into(parent);
                }
            }
        }
        let by_local = rows::local_key(self.read, &parents, id)?;
        Ok((join_key(&parents, id), by_local))
    }
}

/// The set that one resource belongs to, as the data plane sees it.
pub(crate) fn find(
    core: &Core,
    service: &str,
    kind: &str,
    id: &str,
    key: &str,
) -> Result<Option<Known>, Problem> {
    let profile = core.surroundings.profile();
    let found = core
        .store
        .read_with(|read| Finder::new(read, &profile).find(service, kind, id, key));
    found
        .map(|found| found.map(|(meta, row)| known(&meta, row)))
        .map_err(|error| problems::store(&core.site, &error))
}

fn known(meta: &MetaId, row: SetRow<Head>) -> Known {
    Known {
        meta: Arc::from(meta.as_str()),
        shown: Arc::from(row.head.shown),
        local: row.head.local.map(Arc::from),
        sites: row.head.sites,
        standing: row.head.standing.into(),
        consistency: row.head.consistency,
        span: row.head.span.map(Arc::new),
        shares: Arc::from(row.head.shares),
    }
}

/// From any id to the one that all sites know. It remembers which sets it met.
pub(crate) struct ToMeta<'r> {
    finder: Finder<'r>,
    met: RefCell<Vec<MetaId>>,
    failed: Cell<Option<Error>>,
}

impl<'r> ToMeta<'r> {
    pub(crate) fn new(finder: Finder<'r>) -> Self {
        Self {
            finder,
            met: RefCell::default(),
            failed: Cell::default(),
        }
    }

    /// The sets whose ids were translated, in order, each once; or why some could not be.
    pub(crate) fn met(self) -> Result<Vec<MetaId>, Error> {
        match self.failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.met.into_inner()),
        }
    }
}

impl Ids for ToMeta<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        match self.finder.find(service, kind, id, key) {
            Ok(found) => {
                let (meta, _) = found?;
                let mut met = self.met.borrow_mut();
                if !met.contains(&meta) {
                    met.push(meta.clone());
                }
                Some(meta.as_str().to_owned())
            }
            Err(error) => {
                self.failed.set(Some(error));
                None
            }
        }
    }
}

/// From the ids that all sites know to the ones of this site's application. It remembers which sets have
/// none here.
pub(crate) struct ToLocal<'r> {
    finder: Finder<'r>,
    missing: RefCell<Vec<MetaId>>,
}

impl<'r> ToLocal<'r> {
    pub(crate) fn new(read: &'r ReadSession) -> Self {
        Self {
            finder: Finder { read, profile: None },
            missing: RefCell::default(),
        }
    }

    /// Sets of this site that have no replica here, or could not be looked up.
    pub(crate) fn missing(&self) -> Vec<MetaId> {
        self.missing.borrow().clone()
    }
}

impl Ids for ToLocal<'_> {
    fn map(&self, service: &str, kind: &str, id: &str, key: &str) -> Option<String> {
        match self.finder.find(service, kind, id, key) {
            Ok(None) => None,
            Ok(Some((meta, row))) => {
                if row.head.local.is_none() {
                    self.missing.borrow_mut().push(meta);
                }
                row.head.local
            }
            Err(_) => {
                self.missing.borrow_mut().push(MetaId::new(id));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
