//! What a request has to do with replication.

use cheops_glue::{Address, Effect};
use cheops_plan::{Concern, Container, Known, Party, Presence, Standing};
use cheops_types::{Problem, VerbClass};
use http::header::CONTENT_TYPE;

use super::{Asking, path};
use crate::{Shared, World, prefer};

/// Whether a request concerns replica sets. When nothing is replicated here, that costs one load.
pub(crate) fn concerns(world: &World, shared: &Shared, service: &str, path: &str) -> bool {
    let presence = &*shared.presence;
    if presence.is_empty() {
        return false;
    }
    let profile = &world.profile;
    let address = profile.address(service, path);
    let concerns_address = address.as_ref().is_some_and(|address| {
        let own = match &address.id {
            Some(_) => has(presence, address),
            None => address.kinds().any(|kind| presence.has_kind(service, kind)),
        };
        own || has_related(presence, address)
    });
    concerns_address
        || (lies_within(address.as_ref(), path)
            && profile
                .within(service, path)
                .iter()
                .any(|container| has(presence, container)))
        || may_be_contained(world, shared, service, path)
}

/// Whether a path can lie within other resources than the addressed one.
fn lies_within(address: Option<&Address<'_>>, path: &str) -> bool {
    match address.map(|address| (&address.id, &address.key)) {
        Some((Some(id), Some(key))) => id != key,
        _ => path.trim_start_matches('/').contains('/'),
    }
}

/// Whether a resource may be a replica.
fn has(presence: &Presence, address: &Address<'_>) -> bool {
    let id = address.id.as_ref();
    id.is_some_and(|id| presence.has_id(address.service(), &address.kind, id))
}

/// Whether ids of other replicated resources may stand in what is said about a resource.
fn has_related(presence: &Presence, address: &Address<'_>) -> bool {
    if is_by_convention(&address.kind) {
        return false;
    }
    let rules = address.rules();
    rules.has_links()
        || rules
            .related()
            .any(|(service, kind)| presence.has_kind(service, kind))
}

/// Whether a path may lie in a container that spans sites. A miss is certain.
fn may_be_contained(world: &World, shared: &Shared, service: &str, path: &str) -> bool {
    let (presence, profile) = (&shared.presence, &world.profile);
    let mut kinds = profile.container_kinds(service);
    kinds.any(|kind| presence.has_kind(service, kind))
        && profile
            .containers(service, path)
            .iter()
            .any(|container| presence.has_id(service, &container.kind, &container.id))
}

impl Asking<'_> {
    /// Finds out what replication has to do with a request; mostly nothing.
    pub(super) fn concern(
        &self,
        verb: VerbClass,
        wants_sites: bool,
        is_effect_free: bool,
    ) -> Result<Option<Box<Concern>>, Problem> {
        let is_concerned = || concerns(self.world, self.shared, self.service, self.path);
        if self.shared.replication().is_none() || !(wants_sites || is_concerned()) {
            return Ok(None);
        }
        if wants_sites {
            path::check_path_of_set(self)?;
        }
        let mut concern = self.about(verb, is_effect_free);
        self.find_set(&mut concern, is_effect_free)?;
        concern.container = self.container(verb)?;
        Ok(Some(Box::new(concern)))
    }

    /// What the path, the method and the preferences say.
    fn about(&self, verb: VerbClass, is_effect_free: bool) -> Concern {
        let profile = &self.world.profile;
        let address = profile.address(self.service, self.path);
        let (weights, unreserved) = prefer::span(self.headers);
        let nothing = Concern {
            known: None,
            kind: None,
            effect: Effect::Read,
            is_upsert: false,
            is_item: false,
            is_document: false,
            has_references: false,
            is_own: false,
            container: None,
            can_span: false,
            weights,
            unreserved,
        };
        let Some(address) = address else {
            let effect = if verb.is_read() {
                Effect::Read
            } else {
                Effect::Replace
            };
            return Concern { effect, ..nothing };
        };
        let (is_document, is_item) = (address.below.is_empty(), address.id.is_some());
        let is_upsert = || {
            address
                .rules()
                .is_upsert(self.method.as_str(), self.content_type())
        };
        Concern {
            effect: self.effect(&address, is_effect_free),
            is_upsert: is_document && is_item && is_upsert(),
            is_item,
            is_document,
            has_references: is_document && has_related(&self.shared.presence, &address),
            can_span: address.rules().is_divisible() || address.rules().is_container(),
            kind: Some(address.kind.into_owned()),
            ..nothing
        }
    }

    /// Finds the set that the request is about, or that what it is about lies within.
    fn find_set(&self, concern: &mut Concern, is_effect_free: bool) -> Result<(), Problem> {
        let profile = &self.world.profile;
        let address = profile.address(self.service, self.path);
        for outer in profile.within(self.service, self.path) {
            let Some(known) = find(self.shared, &outer)? else {
                continue;
            };
            // What the glue describes as a kind of its own is no part of what its path begins with.
            let is_part = address
                .as_ref()
                .is_none_or(|address| outer.kind == address.kind || is_by_convention(&address.kind));
            if is_part {
                concern.effect = self.effect(&outer, is_effect_free);
                concern.is_item = true;
                concern.is_document = outer.below.is_empty();
                concern.kind = Some(outer.kind.into_owned());
            }
            if is_part || !concern.is_write() {
                concern.is_own = is_part;
                concern.known = Some(known);
            }
            break;
        }
        Ok(())
    }

    fn effect(&self, address: &Address<'_>, is_effect_free: bool) -> Effect {
        if is_effect_free || address.rules().is_effect_free(self.query) {
            Effect::Free
        } else {
            address.effect(self.method.as_str(), self.content_type())
        }
    }

    fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE)?.to_str().ok()
    }

    /// The innermost container that spans sites and that the path lies in. Services of a site, and agents of other
    /// sites that have planned already, mean what is here; but what an agent makes that is no part of the container, and
    /// so knows nothing about it, has no name yet.
    fn container(&self, verb: VerbClass) -> Result<Option<Container>, Problem> {
        let profile = &self.world.profile;
        let is_meant = match self.caller {
            Party::User => true,
            Party::Peer => !self.is_named && !verb.is_read(),
            Party::Service => false,
        };
        let Some(coordinator) = self.shared.replication().filter(|_| is_meant) else {
            return Ok(None);
        };
        if profile.is_per_site(self.service, self.path) {
            return Ok(None);
        }
        for found in profile.containers(self.service, self.path) {
            if !self.shared.presence.has_id(self.service, &found.kind, &found.id) {
                continue;
            }
            let known = coordinator.find(self.service, &found.kind, &found.id, &found.key)?;
            let known = known.filter(|known| known.standing == Standing::Member);
            if let Some((known, sites)) = known.and_then(|known| known.extents().map(|sites| (known, sites)))
                && !sites.is_empty()
            {
                return Ok(Some(Container { known, sites }));
            }
        }
        Ok(None)
    }
}

/// Kinds that no glue describes are called by their path.
fn is_by_convention(kind: &str) -> bool {
    kind.starts_with('/')
}

fn find(shared: &Shared, address: &Address<'_>) -> Result<Option<Known>, Problem> {
    let (Some(id), Some(coordinator)) = (&address.id, shared.replication()) else {
        return Ok(None);
    };
    if !has(&shared.presence, address) {
        return Ok(None);
    }
    let key = address.key.as_ref().unwrap_or(id);
    let known = coordinator.find(address.service(), &address.kind, id, key)?;
    // A site that is no longer part of a set knows nothing about it.
    Ok(known.filter(|known| known.standing != Standing::Out))
}
