//! A glue file, compiled.

mod compile;
mod list;
mod replication;
mod resources;
mod section;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use cheops_types::{ServiceName, VerbClass};

use crate::{
    Carrier, GlueError, Identity, Items, Kind, ListShape,
    identity::Role,
    kind::Rules,
    routes::{Match, Routes, Segments},
};

/// The glue files that come with the agent.
const BUILT_IN: [(&str, &str, &str); 1] = [(
    "example",
    "glue/example.toml",
    include_str!("../../../glue/example.toml"),
)];

/// The compiled description of one application.
#[derive(Debug, Clone)]
pub struct Profile {
    application: String,
    correlation: Vec<Carrier>,
    services: BTreeMap<ServiceName, Service>,
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
        compile::compile(file, text)
    }

    /// A profile that comes with the agent, or none of that name.
    pub fn builtin(application: &str) -> Option<Self> {
        let (_, file, text) = BUILT_IN.iter().find(|(name, ..)| *name == application)?;
        Some(Self::parse(file, text).expect("a test compiles every built-in file"))
    }

    /// The names that [`Profile::builtin`] knows.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, ..)| *name)
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
            Some(Match::Below(target, depth)) => {
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

    /// The rules of a kind; those of the conventions where the glue does not describe it.
    pub fn kind(&self, service: &str, kind: &str) -> Cow<'_, Kind> {
        let kinds = self.services.get(service).map(|service| &*service.kinds);
        let described = kinds
            .unwrap_or_default()
            .iter()
            .find(|known| known.name() == kind);
        match described {
            Some(described) => Cow::Borrowed(described),
            None => Cow::Owned(Kind::by_convention(
                kind,
                &self.plain_collection,
                &self.plain_rules,
            )),
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
