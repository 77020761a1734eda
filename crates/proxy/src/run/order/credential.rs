//! Whom a caller's credential may be shown to although another site's answer may still be used.
//!
//! Whoever names a site in a scope trusts it with the request. Of a site that only `!`, `around` or `all()` found the
//! caller may not even know, and a hedge would give it a credential for nothing.

use cheops_plan::Plan;
use cheops_types::SiteName;
use http::{
    HeaderName,
    header::{AUTHORIZATION, COOKIE},
};

use crate::job::Job;

const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// Whether a member may be asked while another one is only late.
pub(super) fn may_hedge(job: &Job, member: &Plan) -> bool {
    let credentials = credentials(job);
    credentials.is_empty() || member.all_sites(&mut |site| may_see(job, site, &credentials))
}

fn may_see(job: &Job, site: &SiteName, credentials: &[HeaderName]) -> bool {
    let world = &job.core.world;
    let withheld = world.withheld_from(site);
    site == job.here()
        || is_named(job, site)
        || world.hedged_freely.contains(site)
        || credentials.iter().all(|name| withheld.contains(name))
}

fn is_named(job: &Job, site: &SiteName) -> bool {
    let loc = job
        .carried()
        .and_then(|carried| carried.scope.loc_of(&job.service.name));
    loc.is_some_and(|loc| loc.names(site))
}

/// The headers of the request that carry a credential: the usual ones, and those that the glue names.
fn credentials(job: &Job) -> Vec<HeaderName> {
    let headers = &job.head.headers;
    let usual = [AUTHORIZATION, COOKIE, AUTH_TOKEN];
    let profile = &job.core.world.profile;
    let address = profile.address(&job.service.name, job.head.uri.path());
    let rules = address.as_ref().map(cheops_glue::Address::rules);
    let told = rules.iter().flat_map(|rules| rules.credential_headers());
    let told = told.filter_map(|name| HeaderName::try_from(name.as_str()).ok());
    let known = usual.into_iter().chain(told);
    known.filter(|name| headers.contains_key(name)).collect()
}
