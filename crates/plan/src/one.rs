//! Requests that one site is enough for.

use cheops_types::Plan;

use crate::{View, nearest_first};

/// The plan of a request that has the same effect wherever it is executed: in place of several sites at once this
/// one if it is among them, else the nearest.
pub fn at_one_site<V: View + ?Sized>(plan: Plan, view: &V) -> Plan {
    let each = |members: Vec<Plan>| members.into_iter().map(|member| at_one_site(member, view));
    match plan {
        Plan::Gather(mut sites) | Plan::Replicate { mut sites, .. } | Plan::Cross(mut sites) => {
            nearest_first(&mut sites, view);
            match sites.into_iter().next() {
                Some(site) if site != *view.here() => Plan::Forward(site),
                _ => Plan::Local,
            }
        }
        Plan::Fallback(members) => Plan::Fallback(each(members).collect()),
        Plan::FirstOf(members) => Plan::FirstOf(each(members).collect()),
        Plan::Local | Plan::Forward(_) => plan,
    }
}
