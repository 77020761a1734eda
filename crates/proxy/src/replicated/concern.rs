//! What a request has to do with replication.

use cheops_glue::{Address, Effect};
use cheops_plan::{Known, Presence, Standing};
use cheops_types::{Plan, Problem};
use http::header::CONTENT_TYPE;

use crate::{
    core::Core,
    cross::{self, Container},
    job::{Caller, Job},
};

/// What replication knows about one request.
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub(crate) struct Concern {
    /// The set that the request is about, or that what it is about lies within.
    pub(super) known: Option<Known>,
    /// The kind of that set, or of what the request addresses; none where that cannot be replicated.
    pub(super) kind: Option<String>,
    pub(super) effect: Effect,
    /// Whether it makes the resource that it addresses where there is none.
    pub(super) is_upsert: bool,
    pub(super) is_item: bool,
    /// Whether it is about a resource's own document, not something below it.
    pub(super) is_document: bool,
    /// Whether ids of other resources can stand in the request's body.
    pub(super) has_references: bool,
    pub(super) answer: AnswerIds,
    /// Whether the set is what the request addresses, not only what that lies within.
    pub(super) is_own: bool,
    /// What it lies in, if that spans sites.
    pub(super) container: Option<Container>,
}

/// The ids of replicas in an answer of this site's service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerIds {
    /// This site's own.
    Local,
    /// Those that are the same at all sites.
    Shown,
    /// Those too, and what is a replica is told: the answer may become part of a merged list.
    Told,
}

/// Whether a request concerns replica sets. When nothing is replicated here, that costs one load.
pub(crate) fn concerns(core: &Core, service: &str, path: &str) -> bool {
    let presence = &*core.shared.presence;
    if presence.is_empty() {
        return false;
    }
    let profile = &core.world.profile;
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
        || cross::concerns(core, service, path)
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

/// Finds out what replication has to do with a request, before anything runs.
pub(crate) fn look(job: &mut Job, plan: &Plan) -> Result<(), Problem> {
    let wants_replicas = matches!(plan, Plan::Replicate { .. } | Plan::Cross(_));
    let (core, path) = (job.core.clone(), job.head.uri.path());
    if core.shared.replication().is_none() || !(wants_replicas || concerns(&core, &job.service.name, path)) {
        return Ok(());
    }
    if wants_replicas {
        super::reading::check_path_of_set(&core, &job.service.name, &job.head)?;
    }
    let mut concern = concern(&core, job)?;
    concern.container = cross::container(job)?;
    concern.answer = match (plan, job.caller) {
        // A service knows its own site's ids, but in a list of several sites they would mean nothing.
        (Plan::Gather(_) | Plan::Cross(_), _) | (_, Caller::Peer) => AnswerIds::Told,
        _ if concern.container.is_some() => AnswerIds::Told,
        (_, Caller::User) => AnswerIds::Shown,
        (_, Caller::Service) => AnswerIds::Local,
    };
    job.concern = Some(concern);
    Ok(())
}

fn concern(core: &Core, job: &Job) -> Result<Concern, Problem> {
    let (profile, path) = (&core.world.profile, job.head.uri.path());
    let method = job.head.method.as_str();
    let content_type = job.head.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let effect_of = |address: &Address<'_>| {
        if job.is_effect_free() || address.rules().is_effect_free(job.head.uri.query()) {
            Effect::Free
        } else {
            address.effect(method, content_type)
        }
    };
    let address = profile.address(&job.service.name, path);
    let mut concern = match &address {
        Some(address) => {
            let is_document = address.below.is_empty();
            Concern {
                known: None,
                kind: Some(address.kind.clone().into_owned()),
                effect: effect_of(address),
                is_upsert: is_document
                    && address.id.is_some()
                    && address.rules().is_upsert(method, content_type),
                is_item: address.id.is_some(),
                is_document,
                has_references: is_document && has_related(&core.shared.presence, address),
                answer: AnswerIds::Shown,
                is_own: false,
                container: None,
            }
        }
        None => Concern {
            known: None,
            kind: None,
            effect: if job.verb.is_read() {
                Effect::Read
            } else {
                Effect::Replace
            },
            is_upsert: false,
            is_item: false,
            is_document: false,
            has_references: false,
            answer: AnswerIds::Shown,
            is_own: false,
            container: None,
        },
    };
    for container in profile.within(&job.service.name, path) {
        let Some(known) = find(core, &container)? else {
            continue;
        };
        // What the glue describes as a kind of its own is no part of what its path begins with.
        let is_part = address
            .as_ref()
            .is_none_or(|address| container.kind == address.kind || is_by_convention(&address.kind));
        if is_part {
            concern.kind = Some(container.kind.clone().into_owned());
            concern.effect = effect_of(&container);
            concern.is_item = true;
            concern.is_document = container.below.is_empty();
        }
        if is_part || !is_write(concern.effect) {
            concern.is_own = is_part;
            concern.known = Some(known);
        }
        break;
    }
    Ok(concern)
}

/// Kinds that no glue describes are called by their path.
fn is_by_convention(kind: &str) -> bool {
    kind.starts_with('/')
}

fn find(core: &Core, address: &Address<'_>) -> Result<Option<Known>, Problem> {
    let (Some(id), Some(coordinator)) = (&address.id, core.shared.replication()) else {
        return Ok(None);
    };
    if !has(&core.shared.presence, address) {
        return Ok(None);
    }
    let key = address.key.as_ref().unwrap_or(id);
    let known = coordinator.find(address.service(), &address.kind, id, key)?;
    // A site that is no longer part of a set knows nothing about it.
    Ok(known.filter(|known| known.standing != Standing::Out))
}

pub(super) fn is_write(effect: Effect) -> bool {
    !matches!(effect, Effect::Read | Effect::Free)
}
