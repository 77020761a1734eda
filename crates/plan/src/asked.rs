//! What a scope asks for, before anything is known of the resource.

use std::fmt;

use cheops_types::{Consistency, SiteName};

use crate::{Plan, Target, View, nearest_first};

/// What a scope asks for. `&` on a write and `%` mean something only together with what the resource is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Plan(Plan),
    /// `&` on a write: one resource, a replica at each site.
    Replicas {
        sites: Vec<SiteName>,
        consistency: Consistency,
    },
    /// `strong(...)` on a read: everything that the sites have decided by now.
    Latest(Vec<SiteName>),
    /// `%`: one resource that spans the sites.
    Span(Vec<SiteName>),
}

impl From<Plan> for Asked {
    fn from(plan: Plan) -> Self {
        Self::Plan(plan)
    }
}

impl Asked {
    /// Whether it is about one resource of several sites.
    pub fn wants_sites(&self) -> bool {
        !matches!(self, Self::Plan(_))
    }

    /// Whether the sites are to decide together.
    pub(crate) fn is_strong(&self) -> bool {
        let consistency = Consistency::Strong;
        matches!(self, Self::Replicas { consistency: asked, .. } if *asked == consistency)
    }

    /// The plan of a request that has the same effect wherever it is executed: in place of several sites at once this
    /// one if it is among them, else the nearest.
    pub fn at_one_site<V: View + ?Sized>(self, view: &V) -> Plan {
        match self {
            Self::Plan(plan) => one_of(plan, view),
            Self::Replicas { sites, .. } | Self::Latest(sites) | Self::Span(sites) => nearest(sites, view),
        }
    }
}

fn one_of<V: View + ?Sized>(plan: Plan, view: &V) -> Plan {
    let each = |members: Vec<Plan>| members.into_iter().map(|member| one_of(member, view));
    match plan {
        Plan::Gather(sites) => nearest(sites, view),
        Plan::Fallback(members) => Plan::Fallback(each(members).collect()),
        Plan::FirstOf(members) => Plan::FirstOf(each(members).collect()),
        plan => plan,
    }
}

fn nearest<V: View + ?Sized>(mut sites: Vec<SiteName>, view: &V) -> Plan {
    nearest_first(&mut sites, view);
    let first = sites.into_iter().next();
    first.map_or(Plan::Local, |site| Plan::at(site, view.here()))
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(plan) => plan.fmt(f),
            Self::Replicas { sites, consistency } => Target::New {
                sites: sites.clone(),
                consistency: *consistency,
            }
            .fmt(f),
            Self::Latest(sites) => write!(f, "latest[{}]", sites.join(", ")),
            Self::Span(sites) => write!(f, "cross[{}]", sites.join(", ")),
        }
    }
}
