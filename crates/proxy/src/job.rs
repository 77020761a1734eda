//! One request on its way, with everything that its execution needs.

mod answer_ids;

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};

use cheops_glue::ListShape;
use cheops_net::Client;
use cheops_plan::Concern;
use cheops_types::{Code, Limit, Outcome, Problem, Receipt, ServiceName, SiteName, VerbClass, Visit};
use http::request;

use crate::{
    core::Core,
    correlation::{About, Carried, Happened, Owner, WithCredential, Workflow},
    head::{self, CREDENTIALS},
    service::Service,
};
pub(crate) use answer_ids::AnswerIds;
pub(crate) use cheops_plan::Party;

/// The statuses of answers behind which the service goes on.
const ACCEPTED: u16 = 202;
const SWITCHED: u16 = 101;
/// As much of a credential's end as tells it from others.
const CREDENTIAL_END_BYTES: usize = 32;

/// The workflow that a request belongs to.
pub(crate) enum Flow {
    /// None: the request has no scope.
    Alone,
    /// The request brought a scope of its own: it begins a workflow where it is handed to a service.
    Begins(Arc<Carried>),
    /// A service's own call within a workflow.
    Joins(Workflow),
}

/// The workflow that a request has begun, until it is answered or given up.
struct Begun {
    core: Rc<Core>,
    workflow: Workflow,
    with_credentials: Vec<WithCredential>,
    /// One that is given up may have been executed.
    happened: Cell<Happened>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        let correlation = &self.core.shared.correlation;
        correlation.end(&self.workflow);
        for with in self.with_credentials.drain(..) {
            correlation.end_with_credential(with, self.happened.get(), self.core.limits());
        }
    }
}

#[allow(clippy::struct_excessive_bools)] // each is one fact about the request
pub(crate) struct Job {
    pub(crate) core: Rc<Core>,
    pub(crate) service: Rc<Service>,
    pub(crate) verb: VerbClass,
    /// How to read the answer as a list, where it can be one.
    pub(crate) list: Option<Arc<ListShape>>,
    /// Cleaned, in origin form, with this hop in `Via`.
    pub(crate) head: request::Parts,
    pub(crate) caller: Party,
    /// Whose budgets count.
    pub(crate) client: Option<Client>,
    /// Whether a credential may be in its head.
    pub(crate) may_show_credential: bool,
    /// Whether it came through TLS.
    pub(crate) is_tls: bool,
    /// What replication has to do with the request; mostly nothing.
    pub(crate) concern: Option<Box<Concern>>,
    pub(crate) answer_ids: AnswerIds,
    /// Whether its scope is its caller's own, and what that names in vain can be told.
    pub(crate) tells_unused: bool,
    /// Whether the name of what it makes is reserved.
    pub(crate) is_reserved: bool,
    /// The site whose agent sent it.
    pub(crate) peer: Option<SiteName>,
    flow: Flow,
    begun: OnceCell<Begun>,
    /// How often each site was asked.
    asked: RefCell<Vec<(SiteName, usize)>>,
}

impl Job {
    /// Boxed, because a request goes through many hands.
    pub(crate) fn new(
        core: Rc<Core>,
        service: Rc<Service>,
        head: request::Parts,
        flow: Flow,
        caller: Party,
    ) -> Box<Self> {
        let identity = core
            .world
            .profile
            .identify(&service.name, head.method.as_str(), head.uri.path());
        let (verb, list) = (identity.verb, identity.list.cloned());
        Box::new(Self {
            core,
            service,
            verb,
            list,
            head,
            caller,
            client: None,
            may_show_credential: true,
            is_tls: false,
            concern: None,
            answer_ids: AnswerIds::Local,
            tells_unused: caller == Party::Peer,
            is_reserved: false,
            peer: None,
            flow,
            begun: OnceCell::new(),
            asked: RefCell::default(),
        })
    }

    /// Whether a site may be asked once more. A scope of 2 KB can name a site a hundred times, each name as
    /// the way out of another's failure.
    pub(crate) fn may_ask(&self, site: &SiteName) -> bool {
        let mut asked = self.asked.borrow_mut();
        let Some((_, times)) = asked.iter_mut().find(|(other, _)| other == site) else {
            asked.push((site.clone(), 1));
            return true;
        };
        *times += 1;
        let may = *times <= self.core.limits().site_asks_max;
        if !may {
            Limit::SiteAsks.hit();
        }
        may
    }

    /// The same request for what is done after its answer, outside of its workflow.
    pub(crate) fn look_alike(&self) -> Box<Self> {
        let mut job = Self::new(
            self.core.clone(),
            self.service.clone(),
            head::copy(&self.head),
            Flow::Alone,
            self.caller,
        );
        job.client = self.client;
        job.is_tls = self.is_tls;
        job
    }

    /// Whether the scope says where the service is.
    pub(crate) fn is_placed(&self) -> bool {
        let service = &self.service.name;
        self.carried()
            .is_some_and(|carried| carried.scope.loc_of(service).is_some())
    }

    pub(crate) fn here(&self) -> &SiteName {
        &self.core.world.site
    }

    pub(crate) fn carried(&self) -> Option<&Arc<Carried>> {
        match &self.flow {
            Flow::Alone => None,
            Flow::Begins(carried) => Some(carried),
            Flow::Joins(workflow) => Some(&workflow.carried),
        }
    }

    /// Whether a replica's own execution makes the request, under a scope that names the service.
    pub(crate) fn is_inside_replica(&self) -> bool {
        self.carried().is_some_and(|carried| {
            carried.inside_replica && carried.scope.loc_of(&self.service.name).is_some()
        })
    }

    /// The scope in its full form; empty without one.
    pub(crate) fn scope_text(&self) -> &str {
        self.carried().map_or("", |carried| &carried.text)
    }

    /// The workflow under which a service of this site is called; none without a scope.
    pub(crate) fn workflow(&self) -> Result<Option<&Workflow>, Problem> {
        let carried = match &self.flow {
            Flow::Alone => return Ok(None),
            Flow::Joins(workflow) => return Ok(Some(workflow)),
            Flow::Begins(carried) => carried,
        };
        if let Some(begun) = self.begun.get() {
            return Ok(Some(&begun.workflow));
        }
        let (core, owner) = (&self.core, self.owner());
        let Some(workflow) = core.shared.correlation.begin(carried, owner, core.limits()) else {
            return Err(Problem::new(
                Code::CorrelationFull,
                "as many scopes of this caller are in use as it may have at once; try again when earlier requests \
                 are over, or raise `correlation_scopes_max_bytes`",
            ));
        };
        let mut begun = Begun {
            core: core.clone(),
            workflow,
            with_credentials: Vec::new(),
            happened: Cell::new(Happened::NotExecuted),
        };
        self.begin_with_credentials(&mut begun)?;
        begun.happened.set(Happened::Ends);
        Ok(Some(&self.begun.get_or_init(|| begun).workflow))
    }

    /// Its head, of which method and target stay. Its workflow begins before, because that depends on the rest.
    pub(crate) fn take_head(&mut self) -> Result<request::Parts, Problem> {
        self.workflow()?;
        let (method, uri) = (self.head.method.clone(), self.head.uri.clone());
        let head = head::take(&mut self.head);
        (self.head.method, self.head.uri) = (method, uri);
        Ok(head)
    }

    /// In whose share its scope counts.
    fn owner(&self) -> Owner {
        let keys = self.core.shared.correlation.keys();
        let address = match &self.peer {
            // Not the number of any address.
            Some(site) => Some(keys.caller(site.as_str().as_bytes()) >> 4 | 1 << 60),
            None => self.client.map(Client::number),
        };
        let headers = &self.head.headers;
        let shown = self.may_show_credential;
        let credential = shown
            .then(|| CREDENTIALS.iter().find_map(|name| headers.get(name)))
            .flatten()
            .map(|value| {
                let bytes = value.as_bytes();
                keys.caller(&bytes[bytes.len().saturating_sub(CREDENTIAL_END_BYTES)..])
            });
        Owner::new(address, credential)
    }

    /// Lets calls about the caller's credential find the workflow, where its scope says where they go. A workflow that
    /// they could not find does not begin: they would be local.
    fn begin_with_credentials(&self, begun: &mut Begun) -> Result<(), Problem> {
        for (service, by) in self.core.world.profile.by_credential() {
            let Some(loc) = begun.workflow.carried.scope.loc_of(service) else {
                continue;
            };
            let Some(credential) = self.head.headers.get(by.credential.as_str()) else {
                continue;
            };
            let about = About {
                service,
                credential: credential.as_bytes(),
                is_read: self.verb.is_read(),
            };
            let correlation = &self.core.shared.correlation;
            let (owner, limits) = (self.owner(), self.core.limits());
            let with = correlation.begin_with_credential(about, loc, &begun.workflow, owner, limits);
            begun.with_credentials.push(with.ok_or_else(|| {
                Problem::new(
                    Code::CorrelationFull,
                    format!(
                        "as many credentials of this caller are in use as calls about them to service `{service}` may be \
                         followed for; try again when earlier requests are over, or raise \
                         `correlation_credentials_max_bytes`"
                    ),
                )
            })?);
        }
        Ok(())
    }

    /// Whether this site's service took the request and goes on behind its answer.
    fn goes_on(&self, visits: &[Visit]) -> bool {
        let is_accepted = |visit: &Visit| visit.site == *self.here() && visit.status == Some(ACCEPTED);
        !self.verb.is_read() && visits.iter().any(is_accepted)
    }

    /// The services that this request's own scope names and that no call of its workflow has reached: an application that
    /// passes nothing on is noticed. The site says so whose service has executed, unless that goes on behind its answer, or
    /// services there pass on the scope itself, so that their calls are workflows of their own.
    pub(crate) fn unused(&self, receipt: &Receipt) -> Vec<ServiceName> {
        let Flow::Begins(carried) = &self.flow else {
            return Vec::new();
        };
        // Behind these answers the service goes on.
        let is_over = |status: Option<u16>| !matches!(status, Some(SWITCHED | ACCEPTED));
        let has_executed = |visit: &Visit| {
            visit.site == *self.here() && visit.outcome == Outcome::Executed && is_over(visit.status)
        };
        let is_told = self.tells_unused && !self.core.shared.correlation.passes_scopes();
        if !is_told || !receipt.sites.iter().any(has_executed) {
            return Vec::new();
        }
        let is_used = |service: &ServiceName| {
            let mut reached = receipt.workflow.iter().filter_map(|visit| visit.service.as_ref());
            *service == self.service.name || reached.any(|reached| reached == service)
        };
        let named = carried.scope.services();
        named.filter(|service| !is_used(service)).cloned().collect()
    }

    /// Tells the workflow's first request what this call reached, or gathers what later calls did.
    pub(crate) fn close(&self, visits: &[Visit], mut workflow: Vec<Visit>) -> Vec<Visit> {
        let correlation = &self.core.shared.correlation;
        let limits = self.core.limits();
        match &self.flow {
            Flow::Alone => {}
            Flow::Joins(joined) => {
                let own = visits.iter().map(|visit| Visit {
                    service: Some(self.service.name.clone()),
                    ..visit.clone()
                });
                correlation.note(joined, own.chain(workflow.iter().cloned()));
                if self.goes_on(visits) {
                    correlation.goes_on(joined, limits);
                }
            }
            Flow::Begins(_) => {
                let Some(begun) = self.begun.get() else {
                    return workflow;
                };
                workflow.extend(correlation.end(&begun.workflow));
                let happened = if visits.iter().all(|visit| visit.outcome == Outcome::NotExecuted) {
                    Happened::NotExecuted
                } else if self.goes_on(visits) {
                    correlation.goes_on(&begun.workflow, limits);
                    Happened::GoesOn
                } else {
                    Happened::Ends
                };
                begun.happened.set(happened);
            }
        }
        workflow
    }
}
