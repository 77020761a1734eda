//! What a decision depends on.

use cheops_glue::Effect;
use cheops_scope::Scope;
use cheops_types::{ServiceName, SiteName, Unreserved, VerbClass};

use crate::{Known, Remainder};

/// Who a request is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// A user: sees ids that are the same at all sites.
    User,
    /// A service of this site: its own ids are the local ones.
    Service,
    /// Another site's agent, which has planned already: nothing is forwarded any more.
    Peer,
}

/// Who says where a request goes.
#[derive(Debug, Clone, Copy)]
pub enum Wish<'a> {
    /// A scope, or none.
    Scope(Option<&'a Scope>),
    /// Another agent, by what is left of its plan.
    Peer(&'a Remainder),
}

/// One request, as far as the head and the glue tell.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub struct Request<'a> {
    pub service: &'a ServiceName,
    pub verb: VerbClass,
    pub caller: Party,
    pub wish: Wish<'a>,
    /// Whether the scope of its workflow says where the service is.
    pub is_placed: bool,
    /// Why it has the same effect wherever it is executed, if it has.
    pub one_site: Option<&'static str>,
    /// Whether its method is GET.
    pub is_get: bool,
    /// Whether its answer does not end.
    pub is_stream: bool,
    /// Whether such answers of several sites can be made one.
    pub is_watchable: bool,
    /// Whether it wants to switch protocols.
    pub switches: bool,
    /// Whether a replica's own execution makes it, under a scope that names the service: the other sites' executions
    /// make it too.
    pub is_inside_replica: bool,
}

/// What replication has to do with one request.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub struct Concern {
    /// The set that the request is about, or that what it is about lies within; where this site is, or was until it was
    /// deleted, part of it.
    pub known: Option<Known>,
    /// The kind of that set, or of what the request addresses; none where that cannot be replicated.
    pub kind: Option<String>,
    pub effect: Effect,
    /// Whether it makes the resource that it addresses where there is none.
    pub is_upsert: bool,
    /// Whether the request addresses one resource, or something below one.
    pub is_item: bool,
    /// Whether it is about a resource's own document, not something below it.
    pub is_document: bool,
    /// Whether ids of other resources can stand in the request's body.
    pub has_references: bool,
    /// Whether the set is what the request addresses, not only what that lies within.
    pub is_own: bool,
    /// What it lies in, if that spans sites.
    pub container: Option<Container>,
    /// Whether such a resource can be divided, or contain others.
    pub can_span: bool,
    /// How the caller wants something new to span sites.
    pub weights: Vec<(SiteName, u32)>,
    pub unreserved: Unreserved,
}

impl Concern {
    pub fn is_write(&self) -> bool {
        !matches!(self.effect, Effect::Read | Effect::Free)
    }
}

/// A container that spans sites, and that a request's path lies in.
#[derive(Debug, Clone)]
pub struct Container {
    pub known: Known,
    /// The prime site first; there is one at least.
    pub sites: Vec<SiteName>,
}

impl Container {
    pub fn prime(&self) -> &SiteName {
        &self.sites[0]
    }
}
