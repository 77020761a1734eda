//! A glue file, compiled.

mod caller;
mod calls;
mod compile;
mod entry;
mod inside;
mod list;
mod paths;
mod per_site;
mod reads;
mod replication;
mod resources;
mod section;
mod service;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use cheops_types::{ServiceName, VerbClass};

pub(crate) use inside::Inside;
use per_site::PerSite;
pub(crate) use reads::Reads;

use crate::{
    ByCredential, CallerRules, Carrier, ContextFree, GlueError, Identity, Items, Kind, ListShape, Pointer,
    StandIn,
    caller::Access,
    calls::Calls,
    identity::Role,
    kind::Rules,
    pattern::Segments,
    routes::{Match, Routes},
    streams::Streams,
};

/// The glue of the demo's application.
const EXAMPLE: &str = include_str!("../../../glue/example.toml");

/// The compiled description of one application.
#[derive(Debug, Clone)]
pub struct Profile {
    application: String,
    correlation: Vec<Carrier>,
    pub(crate) services: BTreeMap<ServiceName, Service>,
    /// For paths that are presumed to be collections, and for those presumed not to be.
    plain_collection: Arc<ListShape>,
    plain_one: Arc<ListShape>,
    plain_rules: Arc<Rules>,
}

/// The described paths and kinds of one service.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    routes: Routes<Route>,
    pub(crate) kinds: Vec<Kind>,
    /// Who calls it, and how its errors look.
    access: Access,
    context_free: Calls<ContextFree>,
    effect_free: Calls<()>,
    streams: Streams,
    /// What each site's application makes by itself.
    per_site: Vec<PerSite>,
    /// What it does with a path.
    reads: Reads,
}

/// What a described path is for.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// How a collection's list looks.
    list: Option<Arc<ListShape>>,
    /// Among the service's kinds.
    pub(crate) kind: usize,
    /// Whether it ends with the own id of a resource.
    pub(crate) is_item: bool,
    pub(crate) places: Vec<IdPlace>,
    pub(crate) deeper: Option<Deeper>,
    /// A container whose path this one does not begin with.
    pub(crate) inside: Option<Inside>,
}

/// A list that shows items of another kind too: of one whose paths have a placeholder more.
#[derive(Debug, Clone)]
pub(crate) struct Deeper {
    /// Among the service's kinds.
    pub(crate) kind: usize,
    /// Items of that kind have something there, which stands at the placeholder.
    pub(crate) pointer: Pointer,
    /// What their keys are made of, but for their own ids.
    pub(crate) parents: Vec<Taken>,
}

/// Where a part of a key is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// From this place among those of the list's path.
    Path(usize),
    Item,
}

/// A placeholder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdPlace {
    /// Among the path's segments.
    pub(crate) segment: usize,
    /// The kind whose item's path ends here.
    pub(crate) kind: Option<usize>,
}

impl Profile {
    /// Compiles a glue file. `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, GlueError> {
        compile::compile(file, text).map_err(|mut errors| errors.swap_remove(0))
    }

    /// All mistakes in a glue file that can be told at once, in its order; none if it is good.
    pub fn check(file: &str, text: &str) -> Vec<GlueError> {
        compile::compile(file, text).err().unwrap_or_default()
    }

    /// The demo's application.
    pub fn example() -> Self {
        Self::parse("glue/example.toml", EXAMPLE).expect("a test compiles it")
    }

    /// No glue at all: the ordinary REST conventions for every service.
    pub fn plain() -> Self {
        Self::new("plain".to_owned(), Carrier::plain(), BTreeMap::new())
    }

    fn new(application: String, correlation: Vec<Carrier>, services: BTreeMap<ServiceName, Service>) -> Self {
        Self {
            application,
            correlation,
            services,
            plain_collection: Arc::new(ListShape::plain(Items::Presumed)),
            plain_one: Arc::new(ListShape::plain(Items::Unlikely)),
            plain_rules: Arc::default(),
        }
    }

    pub fn application(&self) -> &str {
        &self.application
    }

    /// What carries a workflow's scope, in the order in which it is looked for.
    pub fn correlation(&self) -> &[Carrier] {
        &self.correlation
    }

    /// The services that the glue describes.
    pub fn services(&self) -> impl Iterator<Item = &ServiceName> {
        self.services.keys()
    }

    /// What a request addresses and does. `path` is the request's path, without its query.
    ///
    /// What the glue does not describe follows the conventions: an odd number of segments is a
    /// collection, an even number one resource. Below a described resource they hold from there on,
    /// except that a `POST` is always an action on that resource.
    pub fn identify(&self, service: &str, method: &str, path: &str) -> Identity<'_> {
        match self.find(service, path).map(|(_, found)| found) {
            Some(Match::Exact(target)) => {
                let verb = target.role.verb(method);
                let list = target
                    .extra
                    .list
                    .as_ref()
                    .filter(|_| verb == VerbClass::ReadCollection);
                Identity {
                    kind: Some(&target.kind),
                    verb,
                    list,
                }
            }
            Some(Match::Below {
                target,
                is_described: true,
                ..
            }) => Identity {
                kind: Some(&target.kind),
                verb: Role::One.verb(method),
                list: None,
            },
            Some(Match::Below { target, depth, .. }) => {
                let identity = self.by_convention(method, depth);
                let is_create = identity.verb == VerbClass::Create;
                Identity {
                    kind: Some(&target.kind),
                    verb: if is_create {
                        VerbClass::Action
                    } else {
                        identity.verb
                    },
                    ..identity
                }
            }
            None => self.by_convention(method, Segments::of(path).count()),
        }
    }

    /// The kinds of a service that the glue describes.
    pub(crate) fn kinds(&self, service: &str) -> &[Kind] {
        self.services
            .get(service)
            .map(|service| &*service.kinds)
            .unwrap_or_default()
    }

    /// The rules of a kind; those of the conventions where the glue does not describe it.
    pub fn kind(&self, service: &str, kind: &str) -> Cow<'_, Kind> {
        let mut kinds = self.kinds(service).iter();
        let described = kinds.find(|known| known.name() == kind);
        match described {
            Some(described) => Cow::Borrowed(described),
            None => Cow::Owned(Kind::by_convention(
                kind,
                &self.plain_collection,
                &self.plain_rules,
            )),
        }
    }

    /// Whether a request belongs to no workflow, and what else is known of it then.
    pub fn context_free(&self, service: &str, method: &str, path: &str) -> Option<&ContextFree> {
        self.services.get(service)?.context_free.find(method, path)
    }

    /// The requests that are about the credential of another one, by service.
    pub fn by_credential(&self) -> impl Iterator<Item = (&ServiceName, &ByCredential)> {
        self.services.iter().flat_map(|(name, service)| {
            let free = service.context_free.values();
            free.filter_map(move |free| Some((name, free.workflow.as_ref()?)))
        })
    }

    /// Whether the glue lists a request as one that changes nothing.
    pub fn is_effect_free(&self, service: &str, method: &str, path: &str) -> bool {
        let service = self.services.get(service);
        service.is_some_and(|service| service.effect_free.find(method, path).is_some())
    }

    /// The kinds of a service that can span sites and contain others.
    pub fn container_kinds(&self, service: &str) -> impl Iterator<Item = &str> {
        let kinds = self.kinds(service).iter();
        kinds.filter(|kind| kind.is_container()).map(Kind::name)
    }

    /// Whether a path addresses something that each site's application makes by itself.
    pub fn is_per_site(&self, service: &str, path: &str) -> bool {
        let service = self.services.get(service);
        service.is_some_and(|service| service.per_site.iter().any(|known| known.matches(path)))
    }

    /// Whether the answer to a read does not end by itself.
    pub fn is_stream(&self, service: &str, path: &str, query: Option<&str>) -> bool {
        let service = self.services.get(service);
        service.is_some_and(|service| service.streams.has(path, query))
    }

    /// How a service reads paths.
    pub(crate) fn reads(&self, service: &str) -> Reads {
        let service = self.services.get(service);
        service.map_or_else(Reads::default, |service| service.reads)
    }

    /// How callers of a service are told apart.
    pub fn caller(&self, service: &str) -> Option<&CallerRules> {
        self.services.get(service)?.access.caller.as_ref()
    }

    /// The service that gives a site a token of its own, which is sent beside a caller's.
    pub fn stand_in(&self) -> Option<(&ServiceName, &StandIn)> {
        let mut services = self.services.iter();
        services.find_map(|(name, service)| Some((name, service.access.stand_in.as_ref()?)))
    }

    /// What an error answer of a service says, in one line.
    pub fn error_text(&self, service: &str, body: &[u8]) -> Option<String> {
        match self.services.get(service) {
            Some(service) => service.access.error_text(body),
            None => Access::default().error_text(body),
        }
    }

    pub(crate) fn find(&self, service: &str, path: &str) -> Option<(&Service, Match<'_, Route>)> {
        let service = self.services.get(service)?;
        Some((service, service.routes.find(path)?))
    }

    fn by_convention(&self, method: &str, segments: usize) -> Identity<'_> {
        let role = Role::by_convention(segments);
        let list = matches!(method, "GET" | "HEAD").then_some(match role {
            Role::Collection => &self.plain_collection,
            Role::One => &self.plain_one,
        });
        Identity {
            kind: None,
            verb: role.verb(method),
            list,
        }
    }
}
