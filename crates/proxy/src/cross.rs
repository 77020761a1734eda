//! Requests about what lies in a container that spans sites, and about resources that are divided among sites.
//!
//! A container's children are each at one site. They are listed as one, found from everywhere, and changed where they
//! are; a new one gets its name from the container's prime site before anything executes.

mod create;
mod names;
mod owner;
mod way;
mod whole;

use cheops_net::Body;
use cheops_plan::{Known, Standing};
use cheops_types::{Plan, PlanKind, Problem, SiteName};

use crate::{
    core::Core,
    execute::{self, Done},
    job::{Caller, Job},
};
pub(crate) use way::{Case, Place, Way};

/// A container that spans sites, and that a request's path lies in.
pub(crate) struct Container {
    known: Known,
    /// The prime site first.
    sites: Vec<SiteName>,
}

impl Container {
    pub(crate) fn sites(&self) -> &[SiteName] {
        &self.sites
    }

    fn prime(&self) -> &SiteName {
        &self.sites[0]
    }
}

/// Whether a path may lie in a container that spans sites. A miss is certain.
pub(crate) fn concerns(core: &Core, service: &str, path: &str) -> bool {
    let (presence, profile) = (&core.shared.presence, &core.world.profile);
    let mut kinds = profile.container_kinds(service);
    kinds.any(|kind| presence.has_kind(service, kind))
        && profile
            .containers(service, path)
            .iter()
            .any(|container| presence.has_id(service, &container.kind, &container.id))
}

/// The innermost container that spans sites and that a request's path lies in. Services of a site, and agents of other
/// sites that have planned already, mean what is here; but what an agent makes that is no part of the container, and so knows
/// nothing about it, has no name yet.
pub(crate) fn container(job: &Job) -> Result<Option<Container>, Problem> {
    let (core, path) = (&job.core, job.head.uri.path());
    let (profile, service) = (&core.world.profile, &*job.service.name);
    let is_meant = match job.caller {
        Caller::User => true,
        Caller::Peer => !job.is_named && !job.verb.is_read(),
        Caller::Service => false,
    };
    let Some(coordinator) = core.shared.replication().filter(|_| is_meant) else {
        return Ok(None);
    };
    if profile.is_per_site(service, path) {
        return Ok(None);
    }
    for found in profile.containers(service, path) {
        if !core.shared.presence.has_id(service, &found.kind, &found.id) {
            continue;
        }
        let known = coordinator.find(service, &found.kind, &found.id, &found.key)?;
        let known = known.filter(|known| known.standing == Standing::Member);
        if let Some((known, sites)) = known.and_then(|known| known.extents().map(|sites| (known, sites)))
            && !sites.is_empty()
        {
            return Ok(Some(Container { known, sites }));
        }
    }
    Ok(None)
}

/// Carries out a request in a container.
pub(crate) async fn execute(job: &mut Job, container: &Container, way: Way, body: Body) -> (PlanKind, Done) {
    match way {
        Way::Gather(sites) => {
            let plan = Plan::Gather(sites);
            (PlanKind::Gather, execute::planned(job, &plan, body).await)
        }
        Way::Owner(sites) => (
            PlanKind::Cross,
            owner::change(job, container, &sites, None, body).await,
        ),
        Way::Upsert { place, sites } => (
            PlanKind::Cross,
            owner::change(job, container, &sites, Some(place), body).await,
        ),
        Way::Create(place) => (PlanKind::Cross, create::create(job, container, place, body).await),
        Way::Refuse(problem) => (PlanKind::Cross, Done::refused(job.here(), problem)),
    }
}

/// The plan of a request for one resource in a container that cannot be asked of several sites: it goes to where the
/// resource is.
pub(crate) async fn plan_for_one(job: &Job, sites: &[SiteName]) -> Result<Plan, Problem> {
    match owner::find(job, sites).await {
        owner::Found::At(site) => Ok(at(job, site)),
        owner::Found::Nowhere => Ok(Plan::Local),
        owner::Found::Unclear(missing) => Err(owner::unclear(&missing)),
    }
}

fn at(job: &Job, site: SiteName) -> Plan {
    if site == *job.here() {
        Plan::Local
    } else {
        Plan::Forward(site)
    }
}

pub(crate) use whole::read as read_whole;
